"""Where an error happened, and what was forgotten: user lines, debugging, computations unperformed.

Here is nothing that decides what a program does; everything else of the machine may use it.
"""
