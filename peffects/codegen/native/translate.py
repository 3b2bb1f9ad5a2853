"""Generated source to LLVM: the part of Python in which kernels are written.

Kernels are straight code, loops and branches over numbers: names, `for .. in range`, `while`, `if`,
calls.  Every type is known where a value is made, so one walk over the syntax tree gives LLVM's
instructions; numba, which infers types of any Python, takes ten times as long for the same.  What a
kernel calls is an intrinsic of ours (`intrinsics.py` and its like, which emit LLVM themselves), a
function of `math`, a type, or another function of this kind, whose body is put in place.

All kernels of a program make one module.  Imports numba: only `load/loader.py` has it imported.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from types import FunctionType
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core.extending import _Intrinsic

from peffects.codegen.native import llvm_values as lv
from peffects.codegen.native.llvm_values import Typed
from peffects.errors import InternalError
from peffects.source import syntax_tree

__all__ = ["translate"]

_WORD = ir.IntType(64)
_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<",
    ast.RShift: ">>", ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">",
    ast.GtE: ">=", ast.USub: "-", ast.Not: "not",
}  # fmt: skip
_NUMBERS: dict[object, types.Type] = {float: types.float64, int: types.int64}


def translate(module: ir.Module, kernels: Mapping[str, FunctionType]) -> set[str]:
    """Add to `module` a function `void(i64 chunk, i64 frame)` for each kernel, by its name.

    Gives the files of all functions that were put in place.
    """
    files: set[str] = set()
    kind = ir.FunctionType(ir.VoidType(), [_WORD, _WORD])
    for name, kernel in kernels.items():
        function = ir.Function(module, kind, name)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        start = builder.append_basic_block("start")
        args = [Typed(types.int64, value) for value in function.args]
        body = _Translation(builder, builder.block, files)
        builder.position_at_end(start)
        body.call(kernel, args)
        builder.ret_void()
        builder.position_at_end(body.entry)
        builder.branch(start)
    return files


class _Context:
    """What intrinsics may ask numba's target for."""

    @staticmethod
    def get_dummy_value() -> ir.Value:
        """What stands for the result of a function that gives none."""
        return ir.IntType(8).as_pointer()(None)


@dataclass(slots=True)
class _InlinedFunction:
    """A function that is being put in place."""

    function: FunctionType
    exit: ir.Block
    variables: dict[str, Typed] = field(default_factory=dict)
    result: Typed | None = None
    loop_exits: list[ir.Block] = field(default_factory=list)


@lru_cache(maxsize=16)  # generated files come and go, those of the package stay
def _definitions(filename: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file, by the line that Python tells for each."""
    tree = syntax_tree("".join(linecache.getlines(filename)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {min([f.lineno, *(d.lineno for d in f.decorator_list)]): f for f in found}


class _Translation:
    """Walks a function and those it calls, and appends instructions."""

    def __init__(self, builder: ir.IRBuilder, entry: ir.Block, files: set[str]) -> None:
        self.builder, self.entry, self.files = builder, entry, files
        self.scopes: list[_InlinedFunction] = []

    @property
    def scope(self) -> _InlinedFunction:
        return self.scopes[-1]

    # --- functions ----------------------------------------------------------------------------

    def call(self, function: FunctionType, args: Sequence[Typed]) -> Typed:
        """Put the body of a function in place; its result, if it has one."""
        code = function.__code__
        if any(scope.function.__code__ is code for scope in self.scopes):
            raise InternalError(f"The kernel function {function.__name__} calls itself.")
        self.files.add(code.co_filename)
        definition = _definitions(code.co_filename)[code.co_firstlineno]
        scope = _InlinedFunction(function, self.builder.append_basic_block("done"))
        self.scopes.append(scope)
        for parameter, value in zip(definition.args.args, args, strict=True):
            self.assign(parameter.arg, value)
        self.body(definition.body)
        self.go_to(scope.exit)
        self.builder.position_at_end(scope.exit)
        self.scopes.pop()
        if scope.result is None:
            return Typed(types.void, None)
        return Typed(scope.result.type, self.builder.load(scope.result.value))

    def place(self, t: types.Type) -> Typed:
        """Memory on the stack, which LLVM turns into registers."""
        with self.builder.goto_block(self.entry):
            return Typed(t, self.builder.alloca(lv.llvm_type(t)))

    def assign(self, name: str, value: Typed) -> None:
        place = self.scope.variables.get(name)
        if place is None:
            place = self.scope.variables[name] = self.place(value.type)
        if place.type != value.type:
            raise InternalError(
                f"The variable {name} of {self.scope.function.__name__} has two types, "
                f"{place.type} and {value.type}."
            )
        self.builder.store(value.value, place.value)

    def go_to(self, block: ir.Block) -> None:
        """Jump, unless control has left already."""
        if not self.builder.block.is_terminated:
            self.builder.branch(block)

    # --- statements ---------------------------------------------------------------------------

    def body(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            if self.builder.block.is_terminated:
                return
            self.statement(statement)

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[target], value=value):
                self.bind(target, value)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                old = self.expr(ast.Name(name))
                self.assign(name, self.binary(op, old, self.expr(value)))
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=value):
                self.expr(value)
            case ast.If(test=test, body=then, orelse=orelse):
                self.branch(test, lambda: self.body(then), lambda: self.body(orelse))
            case ast.For(target=ast.Name(id=name), iter=ast.Call(args=args), body=body):
                self.counted(name, args, body)
            case ast.While(test=test, body=body):
                self.repeated(test, body)
            case ast.Break():
                self.builder.branch(self.scope.loop_exits[-1])
            case ast.Return(value=value):
                self.leave(value)
            case _:
                raise self.refused(node)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Name(id=name), _:
                self.assign(name, self.expr(value))
            case ast.Tuple(elts=targets), ast.Tuple(elts=values):
                for one, result in zip(targets, [self.expr(v) for v in values], strict=True):
                    self.assign(cast(ast.Name, one).id, result)
            case _:
                raise self.refused(target)

    def leave(self, value: ast.expr | None) -> None:
        scope = self.scope
        if value is not None:
            result = self.expr(value)
            scope.result = scope.result or self.place(result.type)
            self.builder.store(
                lv.cast(self.builder, result, scope.result.type).value, scope.result.value
            )
        self.builder.branch(scope.exit)

    def branch(
        self, test: ast.expr, then: Callable[[], object], orelse: Callable[[], object]
    ) -> None:
        """Run one side and go on behind both."""
        sides = [self.builder.append_basic_block(name) for name in ("then", "else", "after")]
        self.builder.cbranch(self.truth(test), *sides[:2])
        for side, run in zip(sides, (then, orelse), strict=False):
            self.builder.position_at_end(side)
            run()
            self.go_to(sides[2])
        self.builder.position_at_end(sides[2])

    @contextmanager
    def loop(self) -> Iterator[tuple[ir.Block, ir.Block, ir.Block]]:
        """The test, the body and what follows; what is emitted inside starts at the test."""
        test, body, after = (self.builder.append_basic_block(x) for x in ("test", "loop", "end"))
        self.builder.branch(test)
        self.builder.position_at_end(test)
        self.scope.loop_exits.append(after)
        yield test, body, after
        self.scope.loop_exits.pop()
        self.builder.position_at_end(after)

    def repeated(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        with self.loop() as (again, inside, after):
            self.builder.cbranch(self.truth(test), inside, after)
            self.builder.position_at_end(inside)
            self.body(body)
            self.go_to(again)

    def counted(self, name: str, span: Sequence[ast.expr], body: Sequence[ast.stmt]) -> None:
        """`for name in range(..)`; the step is a constant."""
        values = [lv.cast(self.builder, self.expr(one), types.int64).value for one in span]
        start, stop = values[:2] if len(values) > 1 else (_WORD(0), values[0])
        step = values[2] if len(values) > 2 else _WORD(1)
        if not isinstance(step, ir.Constant):
            raise self.refused(span[2])
        count = self.place(types.int64)
        self.builder.store(start, count.value)
        with self.loop() as (again, inside, after):
            now = self.builder.load(count.value)
            going = self.builder.icmp_signed("<" if step.constant > 0 else ">", now, stop)
            self.builder.cbranch(going, inside, after)
            self.builder.position_at_end(inside)
            self.assign(name, Typed(types.int64, now))
            self.body(body)
            if not self.builder.block.is_terminated:
                self.builder.store(self.builder.add(now, step, flags=["nsw"]), count.value)
                self.builder.branch(again)

    # --- expressions --------------------------------------------------------------------------

    def truth(self, node: ast.expr) -> ir.Value:
        value: ir.Value = lv.cast(self.builder, self.expr(node), types.boolean).value
        return value

    def binary(self, op: ast.operator, x: Typed, y: Typed) -> Typed:
        return lv.binary(self.builder, _OPERATORS[type(op)], x, y)

    def expr(self, node: ast.expr) -> Typed:
        match node:
            case ast.Constant(value=value):
                return lv.constant(value)
            case ast.Name(id=name):
                place = self.scope.variables.get(name)
                if place is not None:
                    return Typed(place.type, self.builder.load(place.value))
                return self.known(self.outside(name))
            case ast.Attribute():
                return self.known(self.static(node))
            case ast.BinOp(left=left, op=op, right=right):
                return self.binary(op, self.expr(left), self.expr(right))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return lv.constant(-value)
            case ast.UnaryOp(op=op, operand=operand):
                return lv.unary(self.builder, _OPERATORS[type(op)], self.expr(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                x, y = self.expr(left), self.expr(right)
                return lv.compare(self.builder, _OPERATORS[type(op)], x, y)
            case ast.BoolOp():
                return self.bool_op(node)
            case ast.IfExp(test=test, body=then, orelse=orelse):
                return self.chosen(test, lambda: self.expr(then), lambda: self.expr(orelse))
            case ast.Call(func=function, args=args, keywords=[]):
                return self.applied(self.static(function), [self.expr(arg) for arg in args])
            case _:
                raise self.refused(node)

    def bool_op(self, node: ast.BoolOp) -> Typed:
        """The operands after the first are evaluated where they decide."""
        first, *rest = node.values
        tail = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        ends = isinstance(node.op, ast.Or)

        def decided() -> Typed:
            return lv.constant(ends)

        def undecided() -> Typed:
            return Typed(types.boolean, self.truth(tail))

        return self.chosen(first, *((decided, undecided) if ends else (undecided, decided)))

    def chosen(
        self, test: ast.expr, then: Callable[[], Typed], orelse: Callable[[], Typed]
    ) -> Typed:
        """The value of one side, and only that is computed."""
        places: list[Typed] = []

        def keep(side: Callable[[], Typed]) -> None:
            value = side()
            places[:] = places or [self.place(value.type)]
            self.builder.store(lv.cast(self.builder, value, places[0].type).value, places[0].value)

        self.branch(test, lambda: keep(then), lambda: keep(orelse))
        return Typed(places[0].type, self.builder.load(places[0].value))

    def applied(self, function: Any, args: Sequence[Typed]) -> Typed:
        """The call of what is known now, with values."""
        if isinstance(function, _Intrinsic):
            return self.intrinsic(function, args)
        if isinstance(function, types.NumberClass):
            return lv.cast(self.builder, args[0], function.instance_type)
        if isinstance(function, types.Number):
            return lv.cast(self.builder, args[0], function)
        if isinstance(function, FunctionType):
            return self.call(function, args)
        if function in lv.MATH:
            return lv.MATH[function](self.builder, *args)
        if function in _NUMBERS:
            return lv.cast(self.builder, args[0], _NUMBERS[function])
        if function is abs:
            return lv.unary(self.builder, "abs", args[0])
        if function in (min, max):
            return lv.extremum(self.builder, "<" if function is min else ">", *args)
        raise InternalError(f"A kernel calls {function!r}, which cannot be translated.")

    def intrinsic(self, function: _Intrinsic, args: Sequence[Typed]) -> Typed:
        given = [arg.type for arg in args]
        found = function.__wrapped__(None, *given)
        if found is None or len(found[0].args) != len(given):
            shown = ", ".join(map(str, given))
            raise InternalError(
                f"A kernel calls {function.__name__}({shown}), which is not defined."
            )
        result, emit = found
        values = [
            arg.value if arg.value is None else lv.cast(self.builder, arg, t).value
            for arg, t in zip(args, result.args, strict=True)
        ]
        return Typed(result.return_type, emit(_Context, self.builder, result, values))

    # --- what is known before the kernel runs ------------------------------------------------

    def known(self, value: object) -> Typed:
        """A constant; the name of a type as an operand of `convert`."""
        if isinstance(value, types.Number):
            return Typed(types.NumberClass(value), None)
        return lv.constant(value)

    def static(self, node: ast.expr) -> Any:
        """What a name or an attribute of a module stands for."""
        match node:
            case ast.Name(id=name):
                return self.outside(name)
            case ast.Attribute(value=ast.Name(id="math"), attr=attribute):
                return getattr(math, attribute)
            case _:
                raise self.refused(node)

    def outside(self, name: str) -> Any:
        """What a name stands for that the function does not set."""
        function = self.scope.function
        if name in function.__code__.co_freevars:
            cells = cast("tuple[Any, ...]", function.__closure__)
            return cells[function.__code__.co_freevars.index(name)].cell_contents
        for names in (function.__globals__, vars(builtins)):
            if name in names:
                return names[name]
        raise InternalError(f"Nothing explains the name {name} in {function.__name__}.")

    def refused(self, node: ast.AST) -> InternalError:
        return InternalError(
            f"No rule translates `{ast.unparse(node)}` in {self.scope.function.__name__}.",
            fix="Please report this with the generated source.",
        )
