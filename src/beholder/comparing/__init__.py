"""Comparing what was scored: runs with one another, metrics with people, a candidate with a gate.

The calls are `beholder.compare` and `beholder.agree`; modules of these names at the top of the package would hide them.
"""
