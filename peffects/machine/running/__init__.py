"""The machine: one loop that drives generators and performs what they ask for, and how it travels.

Executors choose where machines run; they are in `parallel/executors`.
"""
