"""Derivatives as IR passes: linearize, transpose, and the check that linear parts are linear.

`programs.py` puts them together; `ad/` is the API over it.  Paper: You Only Linearize Once, POPL
2023.
"""
