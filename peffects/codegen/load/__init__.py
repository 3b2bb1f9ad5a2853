"""From source text to machine code in memory, by way of the disk cache.

The only place that starts LLVM and that writes files.
"""
