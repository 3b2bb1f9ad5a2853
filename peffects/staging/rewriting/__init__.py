"""The source of a kernel, rewritten so that statements become calls of hooks.

Only syntax trees are here; what the hooks do is in `hooks/` and `loops/`.
"""
