"""Frames, resumptions and loops: what of a computation waits, and how that runs again or unwinds.

What drives generators is above, in `running/`; what a clause may do is below, in `handling/`.
"""
