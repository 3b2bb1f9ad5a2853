"""Passes from IR to IR that keep a program's meaning and lower its cost.

`pipeline.py` has them in order, a line each; every pass is a pure function in a file of its own,
run through `passes.run`.  What a pass may assume about effects is in `facts.py`.
"""
