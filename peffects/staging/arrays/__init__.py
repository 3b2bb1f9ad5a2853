"""Arithmetic, slices and sorting of whole tables, as loops over their elements.

Functions under numpy's names are in `numpy_surface/`.
"""
