"""Object files and LLVM text to addresses, by llvmlite alone.

Kernels from the disk cache and the chunk loop of `launch/threads.py` are loaded here without numba,
whose import takes half a second.  An `Image` owns the machine code: addresses are good while it
lives.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import llvmlite.binding as llvm

from peffects.codegen.load.cache import ObjectCode

__all__ = ["Image", "image_of_objects", "image_of_text", "unknown_symbols"]


class Image:
    """Machine code in memory, and where in it each function starts."""

    __slots__ = ("__weakref__", "_engine", "addresses")

    def __init__(self, engine: llvm.ExecutionEngine, functions: Sequence[str]) -> None:
        engine.finalize_object()
        self._engine = engine
        self.addresses = {name: engine.get_function_address(name) for name in functions}


@functools.cache
def _start_llvm() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.load_library_permanently("")  # the process itself: libm, libc, the interpreter


def _target_machine() -> llvm.TargetMachine:
    _start_llvm()
    return llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)


def _engine(text: str) -> llvm.ExecutionEngine:
    """An engine with a target machine, of its own for each image, to be freed with it."""
    target = _target_machine()
    module = llvm.parse_assembly(text)
    module.verify()
    return llvm.create_mcjit_compiler(module, target)


def image_of_text(text: str, functions: Sequence[str]) -> Image:
    """Compile a module of LLVM's textual form."""
    return Image(_engine(text), functions)


def image_of_objects(code: ObjectCode) -> Image:
    """Load object files; `unknown_symbols(code)` must be empty, for LLVM calls address 0 then."""
    engine = _engine("")
    for file in code.files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(file))
    return Image(engine, code.functions)


def unknown_symbols(code: ObjectCode) -> list[str]:
    """The symbols that `code` expects and this process does not have."""
    _start_llvm()
    return [name for name in code.externals if llvm.address_of_symbol(name) is None]
