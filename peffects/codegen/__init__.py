"""Native code: from IR to loop programs, to generated source, to machine code, to running it.

`program/loop_programs.py` is the form between lowering and running.  `load/loader.py` turns
generated source into addresses, by numba or from the disk cache; `launch/launcher.py` runs loop
programs, `launch/pool.py` their threads. Layer 7.  Importing this package loads neither numba nor
llvmlite; its run-time half needs llvmlite, and numba is imported when something must be compiled.
"""
