"""Benchmarks as published: data layouts, metrics by name, aggregation, and published numbers."""
