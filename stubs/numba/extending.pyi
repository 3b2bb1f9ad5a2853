from collections.abc import Callable
from typing import Any, TypeVar

_Function = TypeVar("_Function", bound=Callable[..., Any])

def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]: ...
def register_jitable(function: _Function) -> _Function: ...
