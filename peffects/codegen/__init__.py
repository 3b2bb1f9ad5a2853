"""Native code: from IR to loop programs, to generated source, to machine code, to running it.

`loops.py` is the form between lowering and running.  `loader.py` turns generated source into
addresses, by numba or from the disk cache; `launcher.py` runs loop programs, `pool.py` their
threads. Layer 7.  Importing this package loads neither numba nor llvmlite; its run-time half needs
llvmlite, and numba is imported when something must be compiled.
"""
