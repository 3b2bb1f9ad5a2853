"""Typed effects, parallel loops, compiled kernels and derivatives of all of them."""

__version__ = "0.1.0"
