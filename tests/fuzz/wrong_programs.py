"""Programs with a mistake: a right one, in which one or two nodes of the syntax tree are changed.

What a user gets wrong: a `yield from` is missing, a name is unknown or means something else, a
type, an index or a number of arguments is wrong, a function calls itself, a handler is missing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable

from fuzz.choices import Choices

__all__ = ["MISTAKES", "with_mistakes"]

Mistake = Callable[[Choices, ast.AST], ast.AST | None]


def _without_yield_from(choices: Choices, node: ast.AST) -> ast.AST | None:
    """`c` for `yield from c`."""
    return node.value if isinstance(node, ast.YieldFrom) else None


def _yield(choices: Choices, node: ast.AST) -> ast.AST | None:
    """`yield c` for `yield from c`."""
    return ast.Yield(node.value) if isinstance(node, ast.YieldFrom) else None


def _other_name(choices: Choices, node: ast.AST) -> ast.AST | None:
    """Another name: unknown, or of something else."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return None
    names = ("unknown", "x", "s", "i", "y", "at", "q", "np", "pe", "len", "kernel", "n")
    return ast.Name(choices.item(names), ast.Load())


def _other_constant(choices: Choices, node: ast.AST) -> ast.AST | None:
    """A constant of another type."""
    if not isinstance(node, ast.Constant):
        return None
    return ast.Constant(choices.item(("text", None, 1j, b"", True, -1, 10**30, 1.5, 0)))


def _other_expression(choices: Choices, node: ast.AST) -> ast.AST | None:
    """Something else in place of an operand."""
    if not isinstance(node, ast.BinOp):
        return None
    text = choices.item(("[]", "(1, 2)", "{}", "x", "'a'", "None", "lambda: 1", "x.index", "at"))
    return ast.BinOp(node.left, node.op, ast.parse(text, mode="eval").body)


def _other_operator(choices: Choices, node: ast.AST) -> ast.AST | None:
    """Another operator."""
    if not isinstance(node, ast.BinOp):
        return None
    operators = (ast.FloorDiv(), ast.Mod(), ast.Pow(), ast.LShift(), ast.BitOr(), ast.MatMult())
    return ast.BinOp(node.left, choices.item(operators), node.right)


def _other_index(choices: Choices, node: ast.AST) -> ast.AST | None:
    """Another index, or one more."""
    if not isinstance(node, ast.Subscript):
        return None
    texts = ("0.5", "(0, 0)", "'a'", "None", "s", "99", "x", "-1", "...", "at", "1:", "x > 0",
             "[0]", "s:", "::-1", "10**30", "True", "1:s:2", ":, 0", "at[0]")  # fmt: skip
    index = ast.parse(f"x[{choices.item(texts)}]", mode="eval").body
    assert isinstance(index, ast.Subscript)
    return ast.Subscript(node.value, index.slice, node.ctx)


def _other_arguments(choices: Choices, node: ast.AST) -> ast.AST | None:
    """An argument too few or too many, or the arguments in another order."""
    if not isinstance(node, ast.Call):
        return None
    more = ast.parse(choices.item(("x", "1", "'a'", "None", "lambda i: i")), mode="eval").body
    able = (node.args[1:], node.args[:-1], [*node.args, more], [more, *node.args],
            node.args[::-1], [more, *node.args[1:]])  # fmt: skip
    return ast.Call(node.func, list(choices.item(able)), node.keywords)


def _without_call(choices: Choices, node: ast.AST) -> ast.AST | None:
    """One argument of a call in its place: `c` for `handle(h, c)`."""
    return node.args[-1] if isinstance(node, ast.Call) and node.args else None


def _called(choices: Choices, node: ast.AST) -> ast.AST | None:
    """A call of what is a value."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return None
    return ast.Call(node, [], [])


def _attribute(choices: Choices, node: ast.AST) -> ast.AST | None:
    """An attribute of a value."""
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return None
    names = ("T", "shape", "value", "unknown", "append", "index", "real", "sum", "__class__")
    return ast.Attribute(node, choices.item(names), ast.Load())


def _assigned_in_place(choices: Choices, node: ast.AST) -> ast.AST | None:
    """`=` for `+=`: in a parallel loop a race."""
    return ast.Assign([node.target], node.value) if isinstance(node, ast.AugAssign) else None


def _other_statement(choices: Choices, node: ast.AST) -> ast.AST | None:
    """A statement in place of an assignment, or none."""
    if not isinstance(node, ast.Assign | ast.Expr):
        return None
    texts = ("pass", "x[0] = 1.0", "del s", "global s", "len = 2", "max = s", "range = [1]",
             "s = None", "s = 'a'", "s = kernel", "import math", "s, t = x", "s = x", "assert s",
             "return", "raise ValueError(s)", "s += 'a'", "s = [x, x]", "print(s)", "break",
             "with s: pass", "for s in s: pass", "s = s if s else x",
             "try:\n    s = s / 0\nfinally:\n    s = 1.0", "x.append(s)", "s = {s: x}",
             "s = x if s > 0.1 else y", "s = i", "def s(): return s()", "lambda: s", "s.x = 1",
             "s = yield", "x[1:] = s", "s: int = 2", "s = (x, s)", "for s in x: s = at",
             "s = [v for v in x]", "s = sum(x[i] for i in range(3))", "s = x[s]", "nonlocal s",
             "match s:\n    case 1: s = 2", "s = f'{s}'", "s = (t := s)", "s = x.sum",
             "s = next(iter(x))", "s = sorted(x)", "s = list(x)", "s = x.tolist()",
             "s = np.linalg.norm", "s = np.array(['a'])", "s = eval('s')")  # fmt: skip
    return ast.parse(choices.item(texts)).body[0]


MISTAKES: tuple[Mistake, ...] = (
    _without_yield_from, _yield, _other_name, _other_constant, _other_expression, _other_operator,
    _other_index, _other_arguments, _without_call, _called, _attribute, _assigned_in_place,
    _other_statement, _other_statement,
)  # fmt: skip


class _Change(ast.NodeTransformer):
    """Makes one mistake at one of the places where it can be made."""

    def __init__(self, choices: Choices, mistake: Mistake, place: int) -> None:
        self.choices, self.mistake, self.place = choices, mistake, place

    def visit(self, node: ast.AST) -> ast.AST:
        """Count down to the place."""
        if self.mistake(_First(), node) is not None:
            if self.place == 0:
                self.place = -1
                return self.mistake(self.choices, node) or node
            self.place -= 1
        return self.generic_visit(node)


class _First(Choices):
    def below(self, bound: int) -> int:
        return 0


def with_mistakes(choices: Choices, source: str) -> str:
    """`source`, in which one to three mistakes are made; it can still be parsed."""
    for _ in range(choices.between(1, 2)):
        tree, mistake = ast.parse(source), choices.item(MISTAKES)
        places = sum(mistake(_First(), node) is not None for node in ast.walk(tree))
        if not places:
            continue
        changed = _Change(choices, mistake, choices.below(places)).visit(tree)
        text = ast.unparse(ast.fix_missing_locations(changed))
        try:
            compile(text, "<mistake>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            continue
        source = text
    return source
