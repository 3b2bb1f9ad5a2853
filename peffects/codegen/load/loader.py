"""Generated source to machine code; numba is imported here, and only when something is compiled.

`load` looks into the modules of this process, then into the disk cache, and only then runs the
source and compiles its kernels.  What it compiles goes to the cache as object files; a later
process loads them with llvmlite alone.  `native/intrinsics.py` holds what generated source imports.

Kernels do not go through numba's `njit`: `native/translate.py` makes LLVM of them, and numba's LLVM
passes follow (`kernel_compiler.py`).  A kernel is a function `void(int64 chunk, int64 frame)`.
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
from typing import Any

from peffects.codegen.load import cache
from peffects.codegen.load.cache import ObjectCode
from peffects.codegen.load.machine_code import Image, image_of_objects, unknown_symbols
from peffects.codegen.program.product_frame import kernel_name
from peffects.errors import InternalError

__all__ = ["Module", "Statistics", "digest_of", "load", "load_products", "statistics"]


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


def load(source: str, kernels: Sequence[str], key: str = "", name: str = "") -> Module:
    """Give the addresses of `kernels`, functions `(chunk, frame)` that `source` defines.

    `source` is a Python module; `key` is what its meaning depends on beyond its text and the
    modules of `peffects.codegen` (usually nothing); `name` tells users what it is.  Thread-safe;
    one compilation at a time.
    """
    digest = digest_of(source, kernels, key)
    with _lock:
        module = _loaded.get(digest)
        if module is None:
            image = _from_disk(digest) or _compile_once(source, kernels, digest, name)
            addresses = {name: image.addresses[_entry_name(name)] for name in kernels}
            module = Module(source, digest, addresses, image)
            _loaded[digest] = module
        return module


def digest_of(source: str, kernels: Sequence[str], key: str = "") -> str:
    """What a program's kernels are found by, in this process and on disk."""
    text = "\0".join([cache.environment_digest(), key, *kernels, source])
    return hashlib.sha256(text.encode()).hexdigest()


def load_products(dtype: str) -> Module:
    """The kernels of matrix products of `dtype`; all programs share them."""
    names = [kernel_name(role, dtype) for role in ("pack", "multiply")]
    source = (
        "from peffects.codegen.native.matrix_product import kernels\n\n"
        f'{", ".join(names)} = kernels("{dtype}")\n'
    )
    return load(source, names, name=f"matrix products of {dtype}")


def _from_disk(digest: str) -> Image | None:
    start = time.perf_counter()
    code = cache.read(digest)
    if code is None or unknown_symbols(code):
        return None
    image = image_of_objects(code)
    statistics.from_disk += 1
    statistics.disk_s += time.perf_counter() - start
    return image


def _compile_once(source: str, kernels: Sequence[str], digest: str, name: str) -> Image:
    """Compile, unless another process has done it by the time that we may."""
    with cache.claim(digest):
        return _from_disk(digest) or _compile(source, kernels, digest, name)


def _compile(source: str, kernels: Sequence[str], digest: str, name: str) -> Image:
    start = time.perf_counter()
    code = _object_code(source, kernels, digest)
    image = image_of_objects(code)
    cache.write(digest, code, name)
    statistics.compiled += 1
    statistics.compile_s += time.perf_counter() - start
    return image


def _object_code(source: str, kernels: Sequence[str], digest: str) -> ObjectCode:
    """Run the source and compile its kernels."""
    # Half a second: only when something must be compiled.
    from peffects.codegen.load.kernel_compiler import compile_kernels

    filename = f"<peffects kernels {digest[:16]}>"
    namespace = _execute(source, filename)
    file, externals = compile_kernels({_entry_name(name): namespace[name] for name in kernels})
    code = ObjectCode(tuple(map(_entry_name, kernels)), externals, (file,))
    if unknown := unknown_symbols(code):
        raise InternalError(
            f"The kernels {', '.join(kernels)} refer to {', '.join(unknown)}, "
            "which this process does not have.",
            fix="Please report this with the generated source.",
        )
    linecache.cache.pop(filename, None)  # after an error its lines are wanted
    return code


def _execute(source: str, filename: str) -> dict[str, Any]:
    """Run the generated module; translation and tracebacks find its lines."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    module = ModuleType("peffects_kernels")
    exec(compile(source, filename, "exec"), module.__dict__)
    return module.__dict__


def _entry_name(kernel: str) -> str:
    return f"peffects.{kernel}"
