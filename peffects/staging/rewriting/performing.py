"""Rearranges expressions that perform effects on one way only, so that statements say so.

Statements have sides that can be staged with what they perform; expressions have none:

    y = (yield from f()) if c else b      if c: value = yield from f()
                                          else: value = b
                                          y = value

    if a and (yield from f()): B          value = a
                                          if value: value = yield from f()
                                          if value: B

    while (yield from f()): A             while True:
                                              if not (yield from f()): break
                                              A

What such an expression is evaluated after, in the same statement, is kept in locals before it.
`jumps.py` rearranges what comes out of this; it runs before.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from typing import TypeVar

from peffects.staging.rewriting.syntax import has_any

__all__ = ["with_performing_statements"]

Node = TypeVar("Node", bound=ast.stmt | ast.expr)


def with_performing_statements(body: list[ast.stmt]) -> list[ast.stmt]:
    """`body`, of a function, with what it performs under a condition in statements."""
    return _Statements().block(body) if _performs(*body) else body


def _performs(*nodes: ast.AST) -> bool:
    return has_any(nodes, ast.Yield, ast.YieldFrom)


class _Statements:
    """Puts what expressions perform under a condition into statements before theirs."""

    def __init__(self) -> None:
        self.serial = itertools.count(1)

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [new for statement in body for new in self.statement(statement)]

    def statement(self, statement: ast.stmt) -> list[ast.stmt]:
        before: list[ast.stmt] = []
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return [statement]
            case ast.While() if _performs(statement.test):
                return self.performing_while(statement)
            case ast.If():
                before, statement.test = self.lifted(statement.test)
            case ast.For():
                before, statement.iter = self.lifted(statement.iter)
            case ast.Assign() | ast.AugAssign() | ast.Expr():
                before, statement.value = self.lifted(statement.value)
            case ast.AnnAssign() | ast.Return() if statement.value is not None:
                before, statement.value = self.lifted(statement.value)
        for part in ("body", "orelse", "finalbody"):
            inner = getattr(statement, part, None)
            if isinstance(inner, list):
                setattr(statement, part, self.block(inner))
        return [*before, statement]

    def performing_while(self, loop: ast.While) -> list[ast.stmt]:
        """The loop with its test in the body; what `else` does, it does after the loop."""
        test = _at(loop.test, ast.UnaryOp(ast.Not(), loop.test))
        over: list[ast.stmt] = [_at(loop, ast.Break())]
        before: list[ast.stmt] = []
        after: list[ast.stmt] = []
        if loop.orelse:
            name = self.fresh()
            before = [_set(loop, name, ast.Constant(False))]
            over.insert(0, _set(loop, name, ast.Constant(True)))
            after = [_at(loop, ast.If(_load(name), loop.orelse, []))]
        loop.body.insert(0, _at(loop.test, ast.If(test, over, [])))
        loop.test, loop.orelse = _at(loop, ast.Constant(True)), []
        return [*before, *self.statement(loop), *self.block(after)]

    def fresh(self) -> str:
        return f"_pe_value_{next(self.serial)}"

    def lifted(self, node: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """What has to be done before `node`, and what is left of it."""
        match node:
            case ast.IfExp() if _performs(node.body, node.orelse):
                before, test = self.lifted(node.test)
                name = self.fresh()
                sides = [self.kept(name, side) for side in (node.body, node.orelse)]
                return [*before, _at(node, ast.If(test, *sides))], _at(node, _load(name))
            case ast.BoolOp() if _performs(*node.values[1:]):
                name = self.fresh()
                return self.kept_while(name, node.op, node.values), _at(node, _load(name))
        places = _parts(node)
        found = [self.lifted(part) for part in places]
        last = max((k for k, (before, _) in enumerate(found) if before), default=-1)
        statements: list[ast.stmt] = []
        parts: list[ast.expr] = []
        for k, (before, part) in enumerate(found):
            statements += before
            if k < last and not isinstance(part, ast.Name | ast.Constant):
                name = self.fresh()
                statements.append(_set(part, name, part))
                part = _at(part, _load(name))
            parts.append(part)
        return statements, _with_parts(node, parts) if statements else node

    def kept(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """`name = value`."""
        before, left = self.lifted(value)
        return [*before, _set(value, name, left)]

    def kept_while(self, name: str, op: ast.boolop, values: list[ast.expr]) -> list[ast.stmt]:
        """`name = values[0] and values[1] ...`, or `or`."""
        first, *rest = values
        statements = self.kept(name, first)
        if rest:
            known: ast.expr = _load(name)
            test = known if isinstance(op, ast.And) else ast.UnaryOp(ast.Not(), known)
            statements.append(_at(first, ast.If(test, self.kept_while(name, op, rest), [])))
        return statements


def _parts(node: ast.expr) -> list[ast.expr]:
    """The operands of `node` in the order in which they are evaluated, of what is taken apart."""
    match node:
        case ast.BinOp():
            return [node.left, node.right]
        case ast.UnaryOp():
            return [node.operand]
        case ast.Compare():
            return [node.left, node.comparators[0]] if len(node.ops) == 1 else []
        case ast.Call():
            return [*node.args, *(keyword.value for keyword in node.keywords)]
        case ast.Tuple() | ast.List():
            return node.elts
        case ast.Yield() | ast.YieldFrom() if node.value is not None:
            return [node.value]
        case _:
            return []


def _with_parts(node: ast.expr, parts: list[ast.expr]) -> ast.expr:
    """`node` with other operands."""
    match node:
        case ast.BinOp():
            node.left, node.right = parts
        case ast.UnaryOp():
            (node.operand,) = parts
        case ast.Compare():
            node.left, node.comparators = parts[0], parts[1:]
        case ast.Call():
            count = len(node.args)
            node.args = parts[:count]
            for keyword, value in zip(node.keywords, parts[count:], strict=True):
                keyword.value = value
        case ast.Tuple() | ast.List():
            node.elts = parts
        case ast.Yield() | ast.YieldFrom():
            (node.value,) = parts
    return node


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _at(place: ast.stmt | ast.expr, node: Node) -> Node:
    return ast.fix_missing_locations(ast.copy_location(node, place))


def _set(place: ast.stmt | ast.expr, name: str, value: ast.expr) -> ast.stmt:
    return _at(place, ast.Assign([ast.Name(name, ast.Store())], value))
