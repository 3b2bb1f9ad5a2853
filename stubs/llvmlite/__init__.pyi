"""What peffects uses of llvmlite, and no more."""
