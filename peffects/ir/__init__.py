"""The intermediate representation: grammar, types, primitives, builder, checker, evaluator, printer.

Start with the grammar in `syntax.py`; `evaluate.py` says what a program means.
"""
