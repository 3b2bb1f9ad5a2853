"""Arrays of the caller in which results are given: which kernels write to, which are copied to.

A kernel writes straight into an array that looks like the buffer that the launcher would have
allocated, and that shares no memory with an input.  All others are filled when all stages have run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from peffects.codegen.launch.stages import check_shape
from peffects.codegen.launch.workspace import AnyArray
from peffects.codegen.program.loop_programs import Buffer, Launch, Output, OutputBuffer, Stage
from peffects.source import SrcInfo

__all__ = ["deliver", "direct_slot", "given"]


def direct_slot(output: Output, stages: Sequence[Stage]) -> int | None:
    """The slot of the buffer that is `output`, if it is allocated once, in the output's shape."""
    if not isinstance(output, OutputBuffer):
        return None
    launches = [stage for stage in stages if isinstance(stage, Launch)]
    buffers: list[Buffer] = [buffer for launch in launches for buffer in launch.buffers]
    fitting = [b for b in buffers if (b.slot, b.shape) == (output.slot, output.shape)]
    return output.slot if fitting and fitting[0].dtype == output.dtype else None


def given(
    into: Sequence[AnyArray | None], direct: Sequence[int | None], inputs: Sequence[object]
) -> dict[int, AnyArray]:
    """The arrays that kernels write to, by slot."""
    arrays = [value for value in inputs if isinstance(value, np.ndarray)]
    return {
        slot: array
        for array, slot in zip(into, direct, strict=True)
        if array is not None
        and slot is not None
        and array.flags.carray
        and not any(np.may_share_memory(array, other) for other in arrays)
    }


def deliver(result: Any, array: AnyArray | None, at: SrcInfo) -> Any:
    """The value of an output: `array`, filled, if there is one."""
    if array is None or result is array:
        return result
    check_shape(array, np.shape(result), at)
    array[...] = result
    return array
