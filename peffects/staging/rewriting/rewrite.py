"""Rewrites a function so that control flow, calls and reads go through hooks.

The hooks (`hooks/hooks.py`) are methods of one object, in scope as `_pe`.  On ordinary values they
do what Python does; on symbols they stage.  Statements keep their shape, so that `break`, `return`
and exceptions work as ever:

    if test: A                       c = _pe.branch(test, names, dead, _pe.locals())
    else: B                          if c.then(_pe.locals()): A
                                     if c.orelse(_pe.locals()):
                                         if c.traced: x, y = c.before()
                                         B
                                     if c.traced: x, y = c.merged(_pe.locals())

    for i in xs: A                   c = _pe.loop(xs, names, targets, dead, _pe.locals())
                                     for i in c:
                                         if c.traced: x, y = c.enter()
                                         A
                                         if c.traced: c.leave(_pe.locals())
                                         if c.is_over(stop): break    # if A leaves the loop early
                                     else:
                                         if c.traced: x, y, i = c.after()

`dead` are the names that are not read later (`liveness.py`).  A symbolic `if` runs both parts; a
symbolic loop yields once for each trial that staging needs.  In a generator function A and B stand
in a `try` with `except c.ended: pass`, by which effects leave them.  All nodes keep the places of
the user's text, so tracebacks and messages show the user's lines.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Sequence
from typing import TypeVar

from peffects.function_trees import FunctionNode, Source
from peffects.staging.rewriting.jumps import stop_of, without_jumps
from peffects.staging.rewriting.liveness import Live, live_where_ways_meet
from peffects.staging.rewriting.syntax import HOOKS, RESULT, assigned_names, bound_names, has_any

__all__ = ["HOOKS", "rewrite_function"]

_FACTORY = "_pe_factory"
_OURS = re.compile(rf"{HOOKS}|{RESULT}|{HOOKS}_(stop_|back_)?\d+")
_UNWRAPPED_CALLS = frozenset({"super", "locals"})
_COMPARISONS = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.In: "in",
    ast.NotIn: "not in",
    ast.Is: "is",
    ast.IsNot: "is not",
}
_UNARY = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
_AUGMENTED = {
    ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/=", ast.FloorDiv: "//=", ast.Mod: "%=",
    ast.Pow: "**=", ast.MatMult: "@=", ast.BitAnd: "&=", ast.BitOr: "|=", ast.BitXor: "^=",
    ast.LShift: "<<=", ast.RShift: ">>=",
}  # fmt: skip
_REFUSED = {
    ast.Try: "`try`", ast.TryStar: "`try`", ast.ClassDef: "a class definition",
    ast.Global: "`global`", ast.Nonlocal: "`nonlocal`", ast.Match: "`match`",
    ast.AsyncFor: "`async for`", ast.AsyncWith: "`async with`",
}  # fmt: skip

Placed = ast.stmt | ast.expr | ast.excepthandler | ast.arg | ast.keyword
Node = TypeVar("Node", bound=ast.AST)


def rewrite_function(source: Source, free: Collection[str]) -> ast.Module:
    """A module with a factory that takes the hooks and `free`, and defines the function."""
    node = copy.deepcopy(source.node)  # the tree of the file stays as it was parsed
    function = _Rewriter(node, source.class_name).function(node)
    if isinstance(function, ast.Lambda):
        body: list[ast.stmt] = [ast.copy_location(ast.Return(function), function)]
    else:
        body = [function]
        if function.name not in free:  # its own name is a global, not a local of the factory
            body.insert(0, ast.copy_location(ast.Global([function.name]), function))
    parameters = [ast.arg(name) for name in (HOOKS, *free)]
    arguments = ast.arguments([], parameters, None, [], [], None, [])
    if not isinstance(function, ast.Lambda) and function.name not in free:
        body.insert(0, ast.Global([function.name]))  # what the function finds under its own name
    factory = ast.FunctionDef(_FACTORY, arguments, body, [], None)
    return ast.fix_missing_locations(ast.Module([ast.copy_location(factory, source.node)], []))


def _load(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function; `constructs` are the `if`s and loops around, innermost last."""

    def __init__(self, outermost: FunctionNode, class_name: str) -> None:
        self.outermost = outermost
        self.class_name = class_name.lstrip("_")
        self.scopes: list[set[str]] = []
        self.constructs: list[str] = []
        self.loops: list[int] = []
        self.performs = False
        self.live: dict[ast.stmt, Live] = {}
        self.count = 0

    # --- making nodes ----------------------------------------------------------------------------

    def at(self, node: Node, place: Placed) -> Node:
        """`node` and all inside it that has no place yet, at the first line of `place`.

        On one line, since the compiler gives a method call the line on which its name ends.
        """
        line, column = place.lineno, place.col_offset
        same_line = place.end_lineno == line
        end_column = place.end_col_offset if same_line else column + 1
        for inner in ast.walk(node):
            if isinstance(inner, Placed) and not hasattr(inner, "lineno"):
                inner.lineno = inner.end_lineno = line
                inner.col_offset, inner.end_col_offset = column, end_column
        return node

    def hook(self, name: str, *args: ast.expr) -> ast.Call:
        return ast.Call(ast.Attribute(_load(HOOKS), name, ast.Load()), list(args), [])

    def thunk(self, body: ast.expr) -> ast.Lambda:
        return ast.Lambda(ast.arguments([], [], None, [], [], None, []), body)

    def method(self, construct: str, name: str, *args: ast.expr) -> ast.Call:
        return ast.Call(ast.Attribute(_load(construct), name, ast.Load()), list(args), [])

    def locals(self) -> ast.Call:
        return self.hook("locals")

    def names_table(self, names: dict[str, int]) -> ast.expr:
        pairs: list[ast.expr] = [
            ast.Tuple([ast.Constant(name), ast.Constant(line)], ast.Load())
            for name, line in names.items()
        ]
        return ast.Tuple(pairs, ast.Load())

    def dead(self, node: ast.stmt, names: dict[str, int]) -> ast.expr:
        """The names that are not read where the ways of an `if` or the rounds of a loop meet."""
        unread = [ast.Constant(name) for name in names if name not in self.live[node]]
        return ast.Tuple(list[ast.expr](unread), ast.Load())

    def when_traced(self, construct: str, value: ast.Call, names: Sequence[str]) -> ast.If:
        """`if c.traced: names = value`."""
        statement: ast.stmt = ast.Expr(value)
        if names:
            target = ast.Tuple([ast.Name(name, ast.Store()) for name in names], ast.Store())
            statement = ast.Assign([target], value)
        return ast.If(ast.Attribute(_load(construct), "traced", ast.Load()), [statement], [])

    def new_construct(self) -> str:
        self.count += 1
        return f"_pe_{self.count}"

    def part(self, construct: str, statements: list[ast.stmt]) -> list[ast.stmt]:
        """A part of a construct, which effects can leave."""
        if not self.performs or not statements:
            return statements
        ended = ast.Attribute(_load(construct), "ended", ast.Load())
        return [ast.Try(statements, [ast.ExceptHandler(ended, None, [ast.Pass()])], [], [])]

    def expr(self, node: ast.expr) -> ast.expr:
        """An expression, rewritten."""
        new = self.visit(node)
        assert isinstance(new, ast.expr)
        return new

    def body(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        new: list[ast.stmt] = []
        for statement in statements:
            result = self.visit(statement)
            if isinstance(result, list):
                new.extend(result)
            else:
                assert isinstance(result, ast.stmt)
                new.append(result)
        return new

    # --- functions -------------------------------------------------------------------------------

    def function(self, node: FunctionNode) -> FunctionNode:
        """The function with its body rewritten, and for the outermost without decorators."""
        outer = self.constructs, self.loops, self.performs
        self.constructs, self.loops = [], []
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.performs = has_any(body, ast.Yield, ast.YieldFrom)
        if node is not self.outermost:
            self.defaults(node.args)
        self.scopes.append(bound_names(node))
        if isinstance(node, ast.Lambda):
            node.body = self.expr(node.body)
        else:
            statements = without_jumps(node.body)
            self.live |= live_where_ways_meet(statements)
            node.body = self.body(statements)
            if self.performs and not has_any(node.body, ast.Yield, ast.YieldFrom):
                node.body.append(self.at(ast.Expr(ast.Yield()), node.body[-1]))  # it was dead code
            node.returns = None
            _strip_annotations(node.args)
        self.scopes.pop()
        self.constructs, self.loops, self.performs = outer
        if node is self.outermost:
            _strip_defaults(node.args)
        if not isinstance(node, ast.Lambda):
            outermost = node is self.outermost
            node.decorator_list = [] if outermost else list(map(self.expr, node.decorator_list))
        return node

    def defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.expr(default) for default in args.defaults]
        args.kw_defaults = [d if d is None else self.expr(d) for d in args.kw_defaults]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.function(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        return self.function(node)

    def comprehension(self, node: ast.AST) -> ast.AST:
        self.scopes.append(bound_names(node))
        new = self.generic_visit(node)
        self.scopes.pop()
        return new

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self.made(self.comprehension(node))

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self.made(self.comprehension(node))

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self.made(self.comprehension(node))

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self.comprehension(node)

    def made(self, node: ast.AST) -> ast.AST:
        """A fresh container: `_pe.made(node)`."""
        assert isinstance(node, ast.expr)
        return self.at(self.hook("made", node), node)

    # --- statements ------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        """Refuse what kernels do not have, when it runs; rewrite all else."""
        if isinstance(node, ast.stmt) and type(node) in _REFUSED:
            what = ast.Constant(_REFUSED[type(node)])
            refusal = self.at(ast.Expr(self.hook("refuse", what)), node)
            rest = node if isinstance(node, ast.Global | ast.Nonlocal) else self.generic_visit(node)
            assert isinstance(rest, ast.stmt)
            return [refusal, rest]
        result: ast.AST | list[ast.stmt] = super().visit(node)
        return result

    def visit_match_case(self, node: ast.match_case) -> ast.AST:
        """The pattern stays: patterns are no expressions."""
        node.guard = self.expr(node.guard) if node.guard else None
        node.body = self.body(node.body)
        return node

    def visit_If(self, node: ast.If) -> list[ast.stmt]:
        names = assigned_names([*node.body, *node.orelse])
        construct = self.new_construct()
        test = self.expr(node.test)
        self.constructs.append(construct)
        then, orelse = self.body(node.body), self.body(node.orelse)
        self.constructs.pop()
        tables = self.names_table(names), self.dead(node, names)
        start = self.hook("branch", test, *tables, self.locals())
        before = self.when_traced(construct, self.method(construct, "before"), list(names))
        merge = self.method(construct, "merged", self.locals())
        then, orelse = self.part(construct, then), self.part(construct, orelse)
        statements = [
            ast.Assign([ast.Name(construct, ast.Store())], start),
            ast.If(self.method(construct, "then", self.locals()), then or [ast.Pass()], []),
            ast.If(self.method(construct, "orelse", self.locals()), [before, *orelse], []),
            self.when_traced(construct, merge, list(names)),
        ]
        return [self.at(statement, node) for statement in statements]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        targets = assigned_names([node.target])
        names = {k: v for k, v in assigned_names(node.body).items() if k not in targets}
        construct = self.new_construct()
        iterable = self.expr(node.iter)
        target = self.expr(node.target)
        body = self.loop_body(construct, node.body)
        orelse = self.body(node.orelse)
        tables = self.names_table(names), self.names_table(targets), self.dead(node, names)
        stop = stop_of(node)
        parts = () if stop is None else (stop.name, stop.what, stop.line)
        where = ast.Tuple([ast.Constant(part) for part in parts], ast.Load())
        start = self.hook("loop", iterable, *tables, self.locals(), where)
        enter = self.when_traced(construct, self.method(construct, "enter"), list(names))
        leave = self.when_traced(construct, self.method(construct, "leave", self.locals()), [])
        after = self.when_traced(construct, self.method(construct, "after"), [*names, *targets])
        rounds = [enter, *self.part(construct, body), leave]
        if stop is not None:
            over = self.method(construct, "is_over", _load(stop.name))
            rounds.append(ast.If(over, [ast.Break()], []))
        loop = ast.For(target, _load(construct), rounds, [after, *orelse])
        first = ast.Assign([ast.Name(construct, ast.Store())], start)
        return [self.at(first, node), self.at(loop, node)]

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        if has_any([node.test], ast.Yield, ast.YieldFrom):
            raise AssertionError("performed while testing: `performing.py` moves it into the body")
        if isinstance(node.test, ast.Constant) or has_any([node.test], ast.NamedExpr):
            self.loops.append(len(self.constructs))
            node.test = self.at(self.hook("again", self.expr(node.test)), node.test)
            node.body, node.orelse = self.body(node.body), self.body(node.orelse)
            self.loops.pop()
            return [node]
        names = assigned_names(node.body)
        construct = self.new_construct()
        test = self.expr(node.test)
        body = self.loop_body(construct, node.body)
        orelse = self.body(node.orelse)
        start = self.hook("while_loop", self.names_table(names), self.dead(node, names))
        more = self.method(construct, "more", self.thunk(test), self.locals())
        enter = self.when_traced(construct, self.method(construct, "enter"), list(names))
        begin = self.when_traced(construct, self.method(construct, "begin", self.thunk(test)), [])
        leave = self.when_traced(construct, self.method(construct, "leave", self.locals()), [])
        after = self.when_traced(construct, self.method(construct, "after"), list(names))
        loop = ast.While(more, [enter, begin, *self.part(construct, body), leave], [after, *orelse])
        first = ast.Assign([ast.Name(construct, ast.Store())], start)
        return [self.at(first, node), self.at(loop, node)]

    def loop_body(self, construct: str, body: list[ast.stmt]) -> list[ast.stmt]:
        self.loops.append(len(self.constructs))
        self.constructs.append(construct)
        new = self.body(body)
        self.constructs.pop()
        self.loops.pop()
        return new

    def leaving(self, what: str, node: ast.stmt, since: int) -> list[ast.stmt]:
        """`_pe.leaving(what, constructs)`, then the statement itself."""
        around = self.constructs[since:]
        if not around:
            return [node]
        constructs = ast.Tuple([_load(name) for name in around], ast.Load())
        hook = self.hook("leaving", ast.Constant(what), constructs)
        return [self.at(ast.Expr(hook), node), node]

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        return self.leaving("break", node, self.loops[-1])

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return self.leaving("continue", node, self.loops[-1])

    def visit_Return(self, node: ast.Return) -> list[ast.stmt]:
        self.generic_visit(node)
        return self.leaving("return", node, 0)

    def visit_Raise(self, node: ast.Raise) -> list[ast.stmt]:
        self.generic_visit(node)
        return self.leaving("raise", node, 0)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        self.generic_visit(node)
        told = ast.Constant(None) if node.msg is None else self.thunk(node.msg)
        return self.at(ast.Expr(self.hook("assertion", node.test, told)), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        symbol = ast.Constant(_AUGMENTED[type(node.op)])
        value = self.expr(node.value)
        target = node.target
        if isinstance(target, ast.Name):
            new = self.hook("augmented", symbol, _load(target.id), value)
            return self.at(ast.Assign([target], new), node)
        if isinstance(target, ast.Attribute):
            name = ast.Constant(self.mangled(target.attr))
            call = self.hook("augmented_attribute", symbol, self.expr(target.value), name, value)
            return self.at(ast.Expr(call), node)
        keys: list[ast.expr] = []
        base: ast.expr = target
        while isinstance(base, ast.Subscript):
            keys.insert(0, self.expr(base.slice))
            base = base.value
        chain = ast.Tuple(keys, ast.Load())
        call = self.hook("augmented_item", symbol, self.expr(base), chain, value)
        return self.at(ast.Expr(call), node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST | list[ast.stmt]:
        node.value = self.expr(node.value)
        (target, *others) = node.targets
        if not others and isinstance(target, ast.Subscript):
            args = self.expr(target.value), self.expr(target.slice), node.value
            return self.at(ast.Expr(self.hook("set_item", *args)), node)
        if not others and isinstance(target, ast.Attribute):
            name = ast.Constant(self.mangled(target.attr))
            args = self.expr(target.value), name, node.value
            return self.at(ast.Expr(self.hook("set_attribute", *args)), node)
        if not others:
            node.value = self.named(target, node.value)
        node.targets = [self.expr(target) for target in node.targets]
        return node

    def named(self, target: ast.expr, value: ast.expr) -> ast.expr:
        """`value`, told the name of the local that it is assigned to."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            starred = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
            if not starred and len(target.elts) == len(value.elts):
                pairs = zip(target.elts, value.elts, strict=True)
                value.elts = [self.named(name, part) for name, part in pairs]
        elif isinstance(target, ast.Name) and isinstance(value, ast.Call | ast.BinOp):
            return self.at(self.hook("named", ast.Constant(target.id), value), value)
        return value

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | list[ast.stmt]:
        if node.value is None:
            return node
        plain = ast.copy_location(ast.Assign([node.target], node.value), node)
        return self.visit_Assign(plain)

    # --- expressions -----------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not isinstance(node.ctx, ast.Load) or any(node.id in scope for scope in self.scopes):
            return node
        if node.id in _UNWRAPPED_CALLS or node.id == "__class__" or _is_ours(node.id):
            return node
        return self.at(self.hook("free", ast.Constant(self.mangled(node.id)), node), node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == HOOKS:
            return node
        node.value = self.expr(node.value)
        if not isinstance(node.ctx, ast.Load):
            node.value = self.at(self.hook("place", node.value), node)
            node.attr = self.mangled(node.attr)
            return node
        name = ast.Constant(self.mangled(node.attr))
        return self.at(self.hook("attribute", node.value, name), node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            node.value = self.at(self.hook("place", node.value), node)
            return node
        return self.at(self.hook("item", node.value, _as_value(node.slice)), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in _UNWRAPPED_CALLS:
            return node
        node.func = self.at(self.hook("callee", node.func), node.func)
        for keyword in node.keywords:
            if keyword.arg is None:
                keyword.value = self.at(self.hook("mapping", keyword.value), keyword.value)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        """`f"{x!r:>8}"` is `_pe.text((x, "r", ">8"))`."""
        pieces: list[ast.expr] = []
        for value in node.values:
            if not isinstance(value, ast.FormattedValue):
                pieces.append(value)
                continue
            conversion = ast.Constant(chr(value.conversion) if value.conversion > 0 else "")
            spec = self.expr(value.format_spec) if value.format_spec else ast.Constant("")
            field: list[ast.expr] = [self.expr(value.value), conversion, spec]
            pieces.append(ast.Tuple(field, ast.Load()))
        return self.at(self.hook("text", *pieces), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        test, body, orelse = map(self.expr, (node.test, node.body, node.orelse))
        if _binds([body, orelse]):
            node.test, node.body, node.orelse = test, body, orelse
            return node
        return self.at(self.hook("choose", test, self.thunk(body), self.thunk(orelse)), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        values: list[ast.expr] = [self.expr(value) for value in node.values]
        if _binds(values[1:]):
            node.values = values
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        result = values[-1]
        for value in reversed(values[:-1]):
            result = self.at(self.hook(name, value, self.thunk(result)), node)
        return result

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            return self.at(self.hook("not_", node.operand), node)
        if isinstance(node.operand, ast.Constant):  # a literal stays one: it may be an index
            return node
        return self.at(self.hook("negate", ast.Constant(_UNARY[type(node.op)]), node.operand), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        symbol = ast.Constant(_AUGMENTED[type(node.op)].removesuffix("="))
        return self.at(self.hook("operate", symbol, node.left, node.right), node)

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        self.generic_visit(node)
        node.iter = self.at(self.hook("iterate", node.iter), node.iter)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        symbols = [_COMPARISONS.get(type(operator)) for operator in node.ops]
        if None in symbols or _binds(node.comparators):
            return node
        thunks = [self.thunk(comparator) for comparator in node.comparators]
        chain = ast.Tuple([ast.Constant(symbol) for symbol in symbols], ast.Load())
        return self.at(self.hook("compare", node.left, chain, *thunks), node)

    def visit_List(self, node: ast.List) -> ast.AST:
        self.generic_visit(node)
        return self.made(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        self.generic_visit(node)
        node.values = [
            value if key is not None else self.at(self.hook("mapping", value), value)
            for key, value in zip(node.keys, node.values, strict=True)
        ]
        return self.made(node)

    def visit_Set(self, node: ast.Set) -> ast.AST:
        self.generic_visit(node)
        return self.made(node)

    def mangled(self, name: str) -> str:
        """`name` as Python would spell it in the body of the class."""
        private = name.startswith("__") and not name.endswith("__") and self.class_name
        return f"_{self.class_name}{name}" if private else name


def _is_ours(name: str) -> bool:
    """Whether `name` is one that rewriting makes, and not a global of the user's that looks so."""
    return _OURS.fullmatch(name) is not None


def _as_value(key: ast.expr) -> ast.expr:
    """The index of a subscript as an expression of its own: a slice becomes `slice(...)`."""
    if isinstance(key, ast.Slice):
        parts = [part or ast.Constant(None) for part in (key.lower, key.upper, key.step)]
        return ast.Call(ast.Attribute(_load(HOOKS), "slice", ast.Load()), parts, [])
    if isinstance(key, ast.Tuple) and any(isinstance(part, ast.Slice) for part in key.elts):
        return ast.Tuple([_as_value(part) for part in key.elts], ast.Load())
    return key


def _binds(nodes: Sequence[ast.AST]) -> bool:
    """Whether putting `nodes` into a lambda would change what they mean."""
    return has_any(nodes, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def _strip_annotations(args: ast.arguments) -> None:
    """Without annotations: they may mention what the factory does not see."""
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None


def _strip_defaults(args: ast.arguments) -> None:
    """Without default values: the rewritten function takes over those that the original has."""
    args.defaults = [ast.Constant(None) for _ in args.defaults]
    args.kw_defaults = [d if d is None else ast.Constant(None) for d in args.kw_defaults]
