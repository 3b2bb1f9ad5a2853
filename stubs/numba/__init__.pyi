"""What peffects uses of numba, and no more."""

from collections.abc import Callable, Mapping
from typing import Any

from numba import types as types
from numba.core.compiler import CompileResult

int64: Callable[[Any], Any]

class Dispatcher:
    @property
    def overloads(self) -> Mapping[tuple[types.Type, ...], CompileResult]: ...
    def __call__(self, *args: Any) -> Any: ...

def njit(
    signature: types.Signature,
    *,
    error_model: str = ...,
    nogil: bool = ...,
    no_cpython_wrapper: bool = ...,
    no_cfunc_wrapper: bool = ...,
) -> Callable[[Callable[..., Any]], Dispatcher]: ...
