"""The intermediate representation: grammar, types, primitives, evaluator, checker, printer.

Start with the grammar in `syntax.py`; `evaluate.py` says what a program means.
"""
