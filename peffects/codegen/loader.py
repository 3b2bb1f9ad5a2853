"""Generated source to machine code; numba is imported here, and only when something is compiled.

`load` looks into the modules of this process, then into the disk cache, and only then runs the
source and compiles its kernels.  What it compiles goes to the cache as object files; a later
process loads them with llvmlite alone.  `intrinsics.py` holds what generated source imports.

numba compiles a kernel to a function of its own calling convention, which returns a code: for each
one `_entry` makes a function `void(int64, int64)` around it.  Kernels do not raise; should one, by
a mistake of ours, the entry writes RAISED into its status record and the launcher reports a bug.
"""

from __future__ import annotations

import hashlib
import linecache
import os
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from peffects.codegen import cache
from peffects.codegen.cache import ObjectCode
from peffects.codegen.loops import FAILED_SLOT, RAISED, STATUS_FIELDS, STATUS_SLOT
from peffects.codegen.machine_code import (
    Image,
    image_of_objects,
    object_of_text,
    unknown_symbols,
)
from peffects.codegen.product_frame import kernel_name
from peffects.errors import InternalError

if TYPE_CHECKING:
    from numba.core.compiler import CompileResult

__all__ = ["Module", "Statistics", "load", "load_products", "statistics"]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Module:
    """The kernels of one generated source, ready to run while this object lives."""

    source: str
    digest: str
    addresses: Mapping[str, int]
    _image: Image


@dataclass(slots=True)
class Statistics:
    """How modules came into this process, and the seconds it took."""

    compiled: int = 0
    compile_s: float = 0.0
    from_disk: int = 0
    disk_s: float = 0.0


statistics = Statistics()
_loaded: weakref.WeakValueDictionary[str, Module] = weakref.WeakValueDictionary()
_lock = threading.RLock()


def _renew_lock() -> None:
    """In a forked child: the thread that held the lock may be gone."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def load(source: str, kernels: Sequence[str], key: str = "") -> Module:
    """Give the addresses of `kernels`, functions `(chunk, frame)` that `source` defines.

    `source` is a Python module; `key` is what its meaning depends on beyond its text and the
    modules of `peffects.codegen` (usually nothing).  Thread-safe; one compilation at a time.
    """
    text = "\0".join([cache.environment_digest(), key, *kernels, source])
    digest = hashlib.sha256(text.encode()).hexdigest()
    with _lock:
        module = _loaded.get(digest)
        if module is None:
            image = _from_disk(digest) or _compile(source, kernels, digest)
            addresses = {name: image.addresses[_entry_name(name)] for name in kernels}
            module = Module(source, digest, addresses, image)
            _loaded[digest] = module
        return module


def load_products(dtype: str) -> Module:
    """The kernels of matrix products of `dtype`; all programs share them."""
    names = [kernel_name(role, dtype) for role in ("pack", "multiply")]
    source = (
        "from peffects.codegen.matrix_product import kernels\n\n"
        f'{", ".join(names)} = kernels("{dtype}")\n'
    )
    return load(source, names)


def _from_disk(digest: str) -> Image | None:
    start = time.perf_counter()
    code = cache.read(digest)
    if code is None or unknown_symbols(code):
        return None
    image = image_of_objects(code)
    statistics.from_disk += 1
    statistics.disk_s += time.perf_counter() - start
    return image


def _compile(source: str, kernels: Sequence[str], digest: str) -> Image:
    start = time.perf_counter()
    code = _object_code(_numba_results(source, kernels, digest))
    image = image_of_objects(code)
    cache.write(digest, code)
    statistics.compiled += 1
    statistics.compile_s += time.perf_counter() - start
    return image


def _numba_results(source: str, kernels: Sequence[str], digest: str) -> dict[str, CompileResult]:
    """Run the source and let numba compile its kernels."""
    # Half a second: only when something must be compiled.
    from numba import config, njit, types
    from numba.core.errors import NumbaError

    from peffects.codegen.kernel_compiler import KernelCompiler

    signature = types.void(types.int64, types.int64)
    disabled, config.DISABLE_JIT = config.DISABLE_JIT, 0  # of use for the user's own functions
    try:
        compiler = njit(
            signature,
            error_model="numpy",
            nogil=True,
            no_cpython_wrapper=True,
            no_cfunc_wrapper=True,
            pipeline_class=KernelCompiler,
        )
        namespace, results = _execute(source, digest), {}
        for name in kernels:
            results[name] = compiler(namespace[name]).overloads[signature.args]
        return results
    except NumbaError as error:
        raise InternalError(
            f"numba refuses one of the kernels {', '.join(kernels)}.",
            fix="Please report this with the generated source.",
        ) from error
    finally:
        config.DISABLE_JIT = disabled


def _execute(source: str, digest: str) -> dict[str, Any]:
    """Run the generated module; tracebacks and numba's messages can show its lines."""
    filename = f"<peffects kernels {digest[:16]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = ModuleType(f"peffects_kernels_{digest[:16]}")
    exec(compile(source, filename, "exec"), module.__dict__)
    return module.__dict__


def _object_code(results: Mapping[str, CompileResult]) -> ObjectCode:
    """The object files of kernels, which numba has no public way to ask for, and their entries."""
    externals: dict[str, None] = {}
    files, entries = [], []
    for name, result in results.items():
        library = result.library
        module = library._final_module
        for symbol in [*module.functions, *module.global_variables]:
            if symbol.is_declaration and not symbol.name.startswith("llvm."):
                externals[symbol.name] = None
        files.append(library._get_compiled_object())
        entries.append(_entry(name, result.fndesc.llvm_func_name))
    files.append(object_of_text("\n".join(entries)))
    code = ObjectCode(tuple(map(_entry_name, results)), tuple(externals), tuple(files))
    if unknown := unknown_symbols(code):
        raise InternalError(
            f"The kernels {', '.join(results)} refer to {', '.join(unknown)}: "
            "they allocate, raise formatted messages, or recurse.",
            fix="Please report this with the generated source.",
        )
    return code


def _entry_name(kernel: str) -> str:
    return f"peffects.{kernel}"


def _entry(kernel: str, symbol: str) -> str:
    """LLVM text of `void(int64, int64)` around numba's `int32(result, exception, int64, int64)`.

    numba's function returns 0 or -2 (None) when it returns; all else is an exception.
    """
    return f"""
declare i32 @"{symbol}"(ptr, ptr, i64, i64)
define void @"{_entry_name(kernel)}"(i64 %chunk, i64 %frame) {{
entry:
  %result = alloca ptr
  %exception = alloca ptr
  %code = call i32 @"{symbol}"(ptr %result, ptr %exception, i64 %chunk, i64 %frame)
  switch i32 %code, label %raised [ i32 0, label %done  i32 -2, label %done ]
raised:
  %slots = inttoptr i64 %frame to ptr
  %status.slot = getelementptr i64, ptr %slots, i64 {STATUS_SLOT}
  %status = load ptr, ptr %status.slot
  %row = mul i64 %chunk, {STATUS_FIELDS}
  %record = getelementptr i64, ptr %status, i64 %row
  store i64 {RAISED}, ptr %record
  %failed = getelementptr i64, ptr %slots, i64 {FAILED_SLOT}
  store atomic i64 1, ptr %failed monotonic, align 8
  br label %done
done:
  ret void
}}
"""
