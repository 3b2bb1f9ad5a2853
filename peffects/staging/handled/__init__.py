"""Effects in kernels: the machine runs on symbols, and its handlers vanish while staging.

`machine.py` is the effect machine with what symbols need: clauses are rewritten like kernels
(`clauses.py`), the states of handlers are carried and merged like locals (`cells.py`), and an exit
that happens on one side of an `if` guards the rest of the computation (`boundaries.py`).
`parallel.py` stages a parallel `for` and says what the standard handlers do around it.
"""
