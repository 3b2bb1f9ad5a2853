"""What `explain` shows: loops and their costs, rows of effects, pages of HTML.

Nothing here changes a program; no other package imports it.
"""
