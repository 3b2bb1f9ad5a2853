"""Symbols of numbers, and the functions of numbers that kernels call.

Whatever has an index, or more than one number, is in `structures/`.
"""
