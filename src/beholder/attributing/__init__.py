"""Attribute evaluation of whole sets: which attributes a generator makes too often, too rarely, together, and where."""
