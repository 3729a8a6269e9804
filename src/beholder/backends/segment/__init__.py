"""Segmenters: from a picture and a short phrase to instances with masks, boxes and scores."""
