"""A call of a loaded kernel: arguments, results, workspace, and the threads that run its loops.

Nothing is compiled here.
"""
