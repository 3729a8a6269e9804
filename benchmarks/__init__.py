"""Benchmarks: ratios against what a user would pick instead, measured in one run. See README.md beside this file."""
