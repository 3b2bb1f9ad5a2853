"""Loops and branches of kernels: parallel, sequential, folds, and the values that they carry.

The statements come from `rewriting/`; the loops of the back-end are in `codegen/`.
"""
