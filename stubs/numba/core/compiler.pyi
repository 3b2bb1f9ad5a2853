from llvmlite.binding import ModuleRef

class CodeLibrary:
    _final_module: ModuleRef

class CompileResult:
    library: CodeLibrary
