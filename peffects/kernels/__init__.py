"""Kernels as users hold them: a call finds its specialization, or the pipeline makes one.

The stages of the pipeline are packages of their own; here is only what connects them.
"""
