"""What users define: operations, handlers, clauses and masks, and the checks of their definitions.

No stack is known here, and nothing runs; that is `resuming/` and `running/`.
"""
