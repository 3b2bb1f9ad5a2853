"""numba's compiler without the passes that generated source has no use for.

Kernels are straight code and loops over scalars: they have no closures to inline, no `with`, no
literal loops to unroll, no arrays whose expressions could be fused, no branches on constants.  What
is left is what numba needs to make machine code, which takes about an eighth less time.  Source
that raises is refused: kernels write a status record instead.

Imports numba: only `loader.py` has it imported.
"""

from __future__ import annotations

from numba.core.compiler import CompilerBase
from numba.core.compiler_machinery import PassManager
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.untyped_passes import FixupArgs, IRProcessing, ReconstructSSA, TranslateByteCode

__all__ = ["KernelCompiler"]

_PASSES = (
    (TranslateByteCode, "bytecode to numba's IR"),
    (FixupArgs, "arguments get their places"),
    (IRProcessing, "control flow and uses of variables"),
    (ReconstructSSA, "each variable is set once, so types need not agree"),
    (NopythonTypeInference, "types"),
    (PreLowerStripPhis, "variables again"),
    (IRLegalization, "dels, which lowering asks for"),
    (NativeLowering, "LLVM"),
    (NoPythonBackend, "the result"),
)


class KernelCompiler(CompilerBase):
    """A compiler of kernels, for `njit(pipeline_class=...)`."""

    def define_pipelines(self) -> list[PassManager]:
        """The one pipeline."""
        passes = PassManager("peffects kernels")
        for one, why in _PASSES:
            passes.add_pass(one, why)
        passes.finalize()
        return [passes]
