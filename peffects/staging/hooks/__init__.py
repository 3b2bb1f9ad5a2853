"""What Python's operations and calls in a kernel do: the hooks that rewritten functions ask.

It connects all of staging, and is its highest floor but for `effects/` and `stage.py`.
"""
