"""Symbols of tables, records and trees, and how two sides of a branch are joined.

Whole-array arithmetic is in `arrays/`, loops in `loops/`.
"""
