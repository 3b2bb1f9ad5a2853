"""Kernels to an object file: our translation, then numba's choice of LLVM's passes.

numba's target machine and passes are what its `njit` uses, settings of the user among them.  Only
its front end is left out, which infers types and lowers to LLVM; see `translate.py`.

Imports numba: only `loader.py` has it imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import FunctionType

from numba.core.codegen import JITCPUCodegen

from peffects.codegen.translate import translate

__all__ = ["compile_kernels"]


@cache
def _code_generator() -> JITCPUCodegen:
    return JITCPUCodegen("peffects")


def compile_kernels(kernels: Mapping[str, FunctionType]) -> tuple[bytes, tuple[str, ...]]:
    """An object file that defines the kernels by these names, and the symbols that it expects."""
    generator = _code_generator()
    library = generator.create_library("peffects kernels")
    module = library.create_ir_module("peffects kernels")
    translate(module, kernels)
    library.add_ir_module(module)
    library._optimize_final_module()
    final = library._final_module
    externals = tuple(
        symbol.name
        for symbol in [*final.functions, *final.global_variables]
        if symbol.is_declaration and not symbol.name.startswith("llvm.")
    )
    return generator._tm.emit_object(final), externals
