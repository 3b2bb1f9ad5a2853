"""Every exception of peffects, each with its code.

A message says what happened, at which user line, and what to do (golden-tested in
`tests/test_errors.py`).  Codes: PE1xx effects and handlers, PE2xx kernels and staging, PE3xx
derivatives, PE4xx what happens while compiled code runs, PE9xx our own mistakes.  Layer 0: imports
`source.py` only.
"""

from peffects.errors.base import PeffectsError, error_classes, page_of
from peffects.errors.derivatives import (
    DerivativeArgumentError,
    GradientMismatchError,
    LinearityError,
    NotDifferentiableError,
)
from peffects.errors.effects import (
    EffectArgumentError,
    HandlerDefinitionError,
    IndexSetError,
    LoopCancelled,
    LoopValuesError,
    MissingYieldFromError,
    NotAComputationError,
    NotReplayable,
    OperationDefinitionError,
    ReplayDivergence,
    ResumptionAlreadyUsed,
    ResumptionExpired,
    ScanDependenceError,
    TraverseError,
    UnhandledEffectError,
)
from peffects.errors.execution import (
    AnswerMutated,
    AwaitError,
    MissingExtraError,
    NotPicklable,
    ResourceNotReplayable,
    ResumedConcurrently,
    UnresumedResumption,
    WorkerDied,
)
from peffects.errors.internal import (
    InternalError,
    MissingRuleError,
)
from peffects.errors.kernels import (
    AccumulatorError,
    ControlFlowError,
    DataRaceError,
    IndexSetMismatchError,
    KernelRecursionError,
    KernelTypeError,
    LeakedTracerError,
    MergeError,
    SideEffectError,
    UnboundedTableError,
    UnknownIndexSetError,
    UnsupportedSyntaxError,
)
from peffects.errors.running import (
    AllocationError,
    BoundsError,
    DivisionError,
    LaunchTimeoutError,
    NotANumberError,
    OutArgumentError,
    ValueRangeError,
)

__all__ = [
    "AccumulatorError",
    "AllocationError",
    "AnswerMutated",
    "AwaitError",
    "BoundsError",
    "ControlFlowError",
    "DataRaceError",
    "DerivativeArgumentError",
    "DivisionError",
    "EffectArgumentError",
    "GradientMismatchError",
    "HandlerDefinitionError",
    "IndexSetError",
    "IndexSetMismatchError",
    "InternalError",
    "KernelRecursionError",
    "KernelTypeError",
    "LaunchTimeoutError",
    "LeakedTracerError",
    "LinearityError",
    "LoopCancelled",
    "LoopValuesError",
    "MergeError",
    "MissingExtraError",
    "MissingRuleError",
    "MissingYieldFromError",
    "NotAComputationError",
    "NotANumberError",
    "NotDifferentiableError",
    "NotPicklable",
    "NotReplayable",
    "OperationDefinitionError",
    "OutArgumentError",
    "PeffectsError",
    "ReplayDivergence",
    "ResourceNotReplayable",
    "ResumedConcurrently",
    "ResumptionAlreadyUsed",
    "ResumptionExpired",
    "ScanDependenceError",
    "SideEffectError",
    "TraverseError",
    "UnboundedTableError",
    "UnhandledEffectError",
    "UnknownIndexSetError",
    "UnresumedResumption",
    "UnsupportedSyntaxError",
    "ValueRangeError",
    "WorkerDied",
    "error_classes",
    "page_of",
]
