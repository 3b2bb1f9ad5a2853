class Signature:
    args: tuple[Type, ...]

class Type:
    def __call__(self, *args: Type) -> Signature: ...

class Float(Type): ...

class Integer(Type):
    signed: bool

boolean: Type
int64: Type
uint64: Type
float64: Type
void: Type
