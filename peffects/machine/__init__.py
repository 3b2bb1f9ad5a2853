"""The effect machine: what operations, handlers and resumptions are, and the loop that runs them.

`handling/` has what users define, `resuming/` what a stack is made of and how it runs again,
`running/` the machine itself, `checking/` what tells users where they are.  Executors, and anything
that knows kernels, belong elsewhere.
"""
