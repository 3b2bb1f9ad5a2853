"""What emitted code calls, as native functions: arithmetic, vectors, random bits, products.

Every use of LLVM's builder is here; compiling and loading are in `load/`.
"""
