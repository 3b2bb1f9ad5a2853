"""Effects in kernels: the machine runs on symbols, and its handlers vanish while staging.

`machine.py` is the effect machine with what symbols need: clauses are rewritten like kernels
(`clauses.py`), the states of handlers are carried and joined like locals (`handler_state.py`), and
an exit that happens on one side of an `if` guards the rest of the computation (`control_flow.py`).
`parallel.py` stages a parallel `for` and says what the standard handlers do around it.
"""
