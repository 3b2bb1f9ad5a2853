"""From the loop IR to source text, by tables of rules.

What the text calls is in `native/`.
"""
