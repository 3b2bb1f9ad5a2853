from llvmlite.binding import ModuleRef
from numba.core.compiler_machinery import PassManager

class FunctionDescriptor:
    @property
    def llvm_func_name(self) -> str: ...

class CodeLibrary:
    _final_module: ModuleRef
    def _get_compiled_object(self) -> bytes: ...

class CompileResult:
    library: CodeLibrary
    fndesc: FunctionDescriptor

class CompilerBase:
    def define_pipelines(self) -> list[PassManager]: ...
