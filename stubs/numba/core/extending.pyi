from collections.abc import Callable
from typing import Any

class _Intrinsic:
    __name__: str
    __wrapped__: Callable[..., Any]
