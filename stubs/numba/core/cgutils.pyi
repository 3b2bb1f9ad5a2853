from llvmlite import ir

def get_or_insert_function(
    module: ir.Module, function_type: ir.FunctionType, name: str
) -> ir.Value: ...
def insert_pure_function(
    module: ir.Module, function_type: ir.FunctionType, name: str
) -> ir.Function: ...
