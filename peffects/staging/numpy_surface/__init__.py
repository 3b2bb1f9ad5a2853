"""Functions under numpy's names, of whole tables.

Each is made of loops and symbols; what numpy means is written here and nowhere else.
"""
