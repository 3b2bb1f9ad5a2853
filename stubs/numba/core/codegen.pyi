from llvmlite import ir
from llvmlite.binding import (
    FunctionPassManager,
    ModulePassManager,
    ModuleRef,
    PassBuilder,
    TargetMachine,
)

class JITCodeLibrary:
    _final_module: ModuleRef
    def create_ir_module(self, name: str) -> ir.Module: ...
    def add_ir_module(self, module: ir.Module) -> None: ...
    def _optimize_functions(self, module: ModuleRef) -> None: ...
    def _optimize_final_module(self) -> None: ...

class JITCPUCodegen:
    _tm: TargetMachine
    def __init__(self, name: str) -> None: ...
    def create_library(self, name: str) -> JITCodeLibrary: ...
    def _module_pass_manager(
        self,
        *,
        opt: int = ...,
        loop_vectorize: bool = ...,
        slp_vectorize: bool = ...,
        cost: str | None = ...,
    ) -> tuple[ModulePassManager, PassBuilder]: ...
    def _function_pass_manager(
        self, *, opt: int = ..., loop_vectorize: bool = ..., slp_vectorize: bool = ...
    ) -> tuple[FunctionPassManager, PassBuilder]: ...
