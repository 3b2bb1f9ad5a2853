"""Rewrites a function for a debugging run: subscripts, calls and operators go through hooks.

Statements stay as they are, so a debugger steps through the user's lines and sees the user's
locals.

    a[i, j]             _pe.item(a, (i, j))
    f(x)                _pe.callee(f)(x)
    x.shape             _pe.attribute(x, "shape")
    x + y, ...          _pe.operate("+", x, y)
    -x, ...             _pe.signed("-", x)
    h[i] += v           _pe.augmented_item("+=", h, (i,), v)
    h += v              h = _pe.augmented("+=", h, v)
    a[i] = v            _pe.set_item(a, i, v)
    y = v               y = _pe.named("y", v)
    for i in xs:        for i in _pe.loop(xs):
"""

from __future__ import annotations

import ast
import copy
from types import CellType, CodeType, FunctionType

from peffects.function_trees import FunctionNode, Source, find_source, with_qualname
from peffects.remembered import remembered

__all__ = ["for_debugging"]

_HOOKS = "_pe"
_FACTORY = "_pe_factory"
_KEPT_CALLS = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec"})
_SIGNS = {ast.UAdd: "+", ast.USub: "-", ast.Invert: "~"}
_AUGMENTED = {
    ast.Add: "+=", ast.Sub: "-=", ast.Mult: "*=", ast.Div: "/=", ast.FloorDiv: "//=", ast.Mod: "%=",
    ast.Pow: "**=", ast.MatMult: "@=", ast.BitAnd: "&=", ast.BitOr: "|=", ast.BitXor: "^=",
    ast.LShift: "<<=", ast.RShift: ">>=",
}  # fmt: skip


def for_debugging(function: FunctionType, hooks: object) -> FunctionType | None:
    """`function` with the hooks in it; None if its source cannot be read."""
    code = function.__code__
    new_code = _code_for_debugging(code)
    if new_code is None:
        return None
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    cells[_HOOKS] = CellType(hooks)
    closure = tuple(cells[name] for name in new_code.co_freevars)
    new = FunctionType(
        new_code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    new.__kwdefaults__ = function.__kwdefaults__
    new.__qualname__ = function.__qualname__
    return new


@remembered
def _code_for_debugging(code: CodeType) -> CodeType | None:
    """The code with the hooks in it; None if its source cannot be read."""
    source = find_source(code)
    return None if source is None else _compiled(source, code)


def _compiled(source: Source, code: CodeType) -> CodeType:
    """The code of the rewritten function, taken out of a factory that has its free variables."""
    node = copy.deepcopy(source.node)
    _strip(node)
    new = _Rewriter().visit(node)
    body = ast.copy_location(ast.Return(new), new) if isinstance(new, ast.Lambda) else new
    if source.class_name:  # names that begin with two underscores are mangled in a class
        inside = ast.ClassDef(source.class_name, [], [], [body], [])
        body = ast.copy_location(inside, node) if not isinstance(new, ast.Lambda) else body
    parameters = [ast.arg(name) for name in (_HOOKS, *code.co_freevars)]
    arguments = ast.arguments([], parameters, None, [], [], None, [])
    statements: list[ast.stmt] = [body]
    if not isinstance(body, ast.Return) and body.name not in code.co_freevars:
        statements.insert(0, ast.Global([body.name]))  # what the function finds under that name
    factory = ast.FunctionDef(_FACTORY, arguments, statements, [], None)
    factory = ast.copy_location(factory, node)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    outer = compile(module, code.co_filename, "exec", dont_inherit=True)
    made = next(found for found in _codes(outer) if found.co_name == code.co_name)
    return with_qualname(made, code.co_qualname)


def _codes(code: CodeType) -> list[CodeType]:
    """All code inside, outermost first."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return inner + [deeper for each in inner for deeper in _codes(each)]


def _strip(node: FunctionNode) -> None:
    """Drop decorators, defaults and annotations: the function object has them already."""
    args = node.args
    args.defaults = [ast.copy_location(ast.Constant(None), default) for default in args.defaults]
    args.kw_defaults = [d and ast.copy_location(ast.Constant(None), d) for d in args.kw_defaults]
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None
    if not isinstance(node, ast.Lambda):
        node.decorator_list = []
        node.returns = None


def _hook(place: ast.AST, name: str, *args: ast.expr) -> ast.Call:
    """`_pe.name(args)` at the place of the user's text."""
    function = ast.Attribute(ast.Name(_HOOKS, ast.Load()), name, ast.Load())
    call = ast.Call(function, list(args), [])
    for node in (call, function, function.value):
        ast.copy_location(node, place)
    return call


def _constant(place: ast.AST, value: str) -> ast.Constant:
    return ast.copy_location(ast.Constant(value), place)


class _Rewriter(ast.NodeTransformer):
    """Children first, then the node itself."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        return node if not isinstance(node.ctx, ast.Load) else self._item(node)

    def _item(self, node: ast.Subscript) -> ast.Call:
        return _hook(node, "item", node.value, _key(node.slice))

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        shapes = ("shape", "index", "index_set", "index_sets", "combine")
        if node.attr not in shapes or not isinstance(node.ctx, ast.Load):
            return node
        return _hook(node, "attribute", node.value, _constant(node, node.attr))

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id in _KEPT_CALLS):
            node.func = _hook(node.func, "callee", node.func)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        symbol = _AUGMENTED[type(node.op)].removesuffix("=")
        return _hook(node, "operate", _constant(node, symbol), node.left, node.right)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not) or isinstance(node.operand, ast.Constant):
            return node
        return _hook(node, "signed", _constant(node, _SIGNS[type(node.op)]), node.operand)

    def visit_For(self, node: ast.For) -> ast.AST:
        self.generic_visit(node)
        node.iter = _hook(node.iter, "loop", node.iter)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        (target, *others) = node.targets
        if others:
            return node
        if isinstance(target, ast.Subscript):
            call = _hook(node, "set_item", target.value, _key(target.slice), node.value)
            return ast.copy_location(ast.Expr(call), node)
        if isinstance(target, ast.Name):
            node.value = _hook(node.value, "named", _constant(node, target.id), node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        symbol = _constant(node, _AUGMENTED[type(node.op)])
        target = node.target
        if isinstance(target, ast.Subscript):
            args = target.value, _key(target.slice), node.value
            call = _hook(node, "augmented_item", symbol, *args)
            return ast.copy_location(ast.Expr(call), node)
        if isinstance(target, ast.Attribute):
            return self._augmented_attribute(node, target, symbol)
        load = ast.copy_location(ast.Name(target.id, ast.Load()), target)
        call = _hook(node, "augmented", symbol, load, node.value)
        name = _hook(node, "named", _constant(node, target.id), call)
        return ast.copy_location(ast.Assign([target], name), node)

    def _augmented_attribute(
        self, node: ast.AugAssign, target: ast.Attribute, symbol: ast.Constant
    ) -> ast.AST:
        """`r.x += v` is `r.x = ...`, or goes through a hook where `r` is more than a name."""
        if not isinstance(target.value, ast.Name):
            name = _constant(node, target.attr)
            call = _hook(node, "augmented_attribute", symbol, target.value, name, node.value)
            return ast.copy_location(ast.Expr(call), node)
        owner = ast.copy_location(ast.Name(target.value.id, ast.Load()), target)
        load = ast.copy_location(ast.Attribute(owner, target.attr, ast.Load()), target)
        call = _hook(node, "augmented", symbol, load, node.value)
        return ast.copy_location(ast.Assign([target], call), node)


def _key(node: ast.expr) -> ast.expr:
    """What stands between the brackets, as an expression of its own; `1:2` becomes a `slice`."""
    if isinstance(node, ast.Tuple):
        parts = [_key(part) for part in node.elts]
        return ast.copy_location(ast.Tuple(parts, ast.Load()), node)
    if not isinstance(node, ast.Slice):
        return node
    none = ast.copy_location(ast.Constant(None), node)
    parts = [part or none for part in (node.lower, node.upper, node.step)]
    return _hook(node, "slice", *parts)
