"""Backends of the capability `FaceAnalyser`: detectors, alignment and recognition networks."""
