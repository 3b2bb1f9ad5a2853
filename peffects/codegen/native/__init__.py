"""What emitted code calls, as native functions: arithmetic, vectors, random bits, products.

Instructions of LLVM are built here; modules are made, compiled and loaded in `load/`.
"""
