"""Native code: from IR to loop programs, to generated source, to machine code, to running it.

`loops.py` is the form between lowering and running.  `launcher.py` runs loop programs, `loader.py`
(the only module that imports numba) turns generated source into addresses.  Layer 7; importing this
package loads neither numba nor llvmlite.
"""
