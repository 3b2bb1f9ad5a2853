"""What a kernel reads from around it: captured values, arguments, functions without a source.

Nothing is computed here: what is read becomes an input or a constant of the program.
"""
