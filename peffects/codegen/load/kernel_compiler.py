"""Kernels to an object file: our translation, then numba's choice of LLVM's passes.

numba's target machine and passes are what its `njit` uses, settings of the user among them.  Only
its front end is left out, which infers types and lowers to LLVM; see `native/translate.py`.  What
LLVM makes for a compilation is freed with it.

Imports numba: only `loader.py` has it imported.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from llvmlite.binding.ffi import ObjectRef
from numba.core.codegen import JITCPUCodegen

from peffects.codegen.load import cache
from peffects.codegen.native.translate import translate
from peffects.errors import InternalError

__all__ = ["compile_kernels"]


class _Generator(JITCPUCodegen):
    """numba's, which also knows the pass managers that it has made."""

    def __init__(self) -> None:
        super().__init__("peffects")
        self._managers: list[llvm.ModulePassManager | llvm.FunctionPassManager] = []

    def _module_pass_manager(
        self, **settings: Any
    ) -> tuple[llvm.ModulePassManager, llvm.PassBuilder]:
        made = super()._module_pass_manager(**settings)
        self._managers.append(made[0])
        return made

    def _function_pass_manager(
        self, **settings: Any
    ) -> tuple[llvm.FunctionPassManager, llvm.PassBuilder]:
        made = super()._function_pass_manager(**settings)
        self._managers.append(made[0])
        return made

    def free_managers(self) -> None:
        """Dispose of them, 15 to 30 kB each; the order of its base classes hides how from llvmlite.

        They serve once: running some passes uses them up.
        """
        while self._managers:
            manager = self._managers.pop()
            if type(manager)._dispose is ObjectRef._dispose:  # which does nothing
                llvm.NewPassManager._dispose(manager)
                manager.detach()
            else:
                manager.close()


@functools.cache
def _code_generator() -> _Generator:
    return _Generator()


def compile_kernels(kernels: Mapping[str, FunctionType]) -> tuple[bytes, tuple[str, ...]]:
    """An object file that defines the kernels by these names, and the symbols that it expects.

    One compilation at a time.
    """
    generator = _code_generator()
    library = generator.create_library("peffects kernels")
    module = library.create_ir_module("peffects kernels")
    _check_texts(translate(module, kernels), kernels)
    with _parsed(module) as parsed:
        library._final_module = parsed
        try:
            library._optimize_functions(parsed)
            library._optimize_final_module()
        finally:
            generator.free_managers()
        final = library._final_module  # settings of numba may have made another one
        externals = tuple(
            symbol.name
            for symbol in [*final.functions, *final.global_variables]
            if symbol.is_declaration and not symbol.name.startswith("llvm.")
        )
        return generator._tm.emit_object(final), externals


def _check_texts(files: Iterable[str], kernels: Mapping[str, FunctionType]) -> None:
    """Refuse functions whose text no key has: the cache would go on giving what they were."""
    own = {kernel.__code__.co_filename for kernel in kernels.values()}
    for file in sorted({*files} - own):
        if os.path.realpath(file) not in cache.compiled_texts():
            raise InternalError(
                f"A kernel calls a function of {os.path.basename(file)}, whose text is not part of "
                "the key of the kernel cache.",
                fix="Please report this. Its module belongs into `cache._COMPILED_TEXTS`.",
            )


@contextmanager
def _parsed(module: ir.Module) -> Iterator[llvm.ModuleRef]:
    """The module as LLVM has it, in a context of its own.

    A context keeps for ever what LLVM makes in it (types, constants, metadata), and numba's is one
    for the process.  The module goes before its context, also when an error holds both.
    """
    context = llvm.create_context()
    parsed = llvm.parse_assembly(str(module), context)
    try:
        parsed.name = module.name
        parsed.verify()
        yield parsed
    finally:
        parsed.close()
        context.close()
