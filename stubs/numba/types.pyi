class Signature:
    args: tuple[Type, ...]
    return_type: Type

class Type:
    def __call__(self, *args: Type) -> Signature: ...
    def __getitem__(self, layout: slice) -> Type: ...

class Number(Type):
    bitwidth: int

class Float(Number): ...

class Integer(Number):
    signed: bool

class NumberClass(Type):
    instance_type: Type
    def __init__(self, instance_type: Type) -> None: ...

boolean: Type
int64: Type
uint32: Type
uint64: Type
float32: Type
float64: Type
void: Type
