"""Who runs the iterations of a parallel `for`: this thread, threads, processes; and progress bars.

An executor knows numbers of iterations and bodies, not effects; those are the machine's.
"""
