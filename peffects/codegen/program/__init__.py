"""The loop IR, the programs written in it, and the sizes and strides that all of codegen shares.

It holds data and rules about them; passes are in `lower/`.
"""
