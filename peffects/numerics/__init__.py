"""Numbers that evaluator and native code compute alike: special functions and random bits.

Only algorithms on plain numbers are here; what stages them is in `staging/`, what compiles them in
`codegen/native`.
"""
