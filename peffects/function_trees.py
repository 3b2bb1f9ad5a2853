"""Finds the syntax tree of a function object, lambdas included.

Files are parsed whole and once, unless many others were read since.  A `def` is found by its line
and name, a lambda by the columns that its code object remembers, so several lambdas on one line are
no problem.  A file that was edited after it was loaded is not the source of the code that runs, and
is not taken for it.
"""

from __future__ import annotations

import ast
import linecache
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from peffects.remembered import Recent
from peffects.source import lines_of, syntax_tree

__all__ = ["FunctionNode", "Source", "find_source", "functions_around", "with_qualname"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Source:
    """A function's syntax tree, and the name of the class whose body it stands in, if any.

    `direct` says that it is a statement of that body, and not of an `if` or a `try` there.
    """

    node: FunctionNode
    class_name: str
    direct: bool


@dataclass(frozen=True, slots=True)
class _File:
    """The text of a file, its syntax tree, and all functions in that."""

    text: str
    module: ast.Module
    functions: tuple[Source, ...]


_FILES: Recent[str, _File] = Recent(64)
_STARTED_S = time.time()


def _file(path: str) -> _File | None:
    """A file as it is now; parsed again when its text has changed."""
    linecache.checkcache(path)
    text = "".join(lines_of(path))
    if not text:
        return None
    known = _FILES.get(path)
    if known is None or known.text != text:
        try:
            module = syntax_tree(text, path)
        except SyntaxError:
            return None
        known = _FILES.keep(path, _File(text, module, tuple(_functions(module, ""))))
    return known


def find_source(code: CodeType) -> Source | None:
    """The source of the function whose code this is, or None if it is not to be had."""
    file = _file(code.co_filename)
    if file is None or (_is_new(code.co_filename) and not _is_what_runs(file.module, code)):
        return None
    found = [source for source in file.functions if _is_source_of(source.node, code)]
    if code.co_name == "<lambda>":
        deepest_first = reversed(found)
        return min(deepest_first, key=lambda source: _extent(source.node), default=None)
    return found[0] if len(found) == 1 else None


def functions_around(code: CodeType) -> list[FunctionNode] | None:
    """The functions in which the function with this code stands, from the outermost to itself."""
    source = find_source(code)
    file = _FILES.get(code.co_filename)
    if source is None or file is None:
        return None
    return _way_to(source.node, file.module)


def _way_to(node: ast.AST, root: ast.AST) -> list[FunctionNode] | None:
    for child in ast.iter_child_nodes(root):
        way = [] if child is node else _way_to(node, child)
        if way is not None:
            return [child, *way] if isinstance(child, FunctionNode) else way
    return None


def _is_new(file: str) -> bool:
    """Whether a file was written after this process had started."""
    try:
        return os.stat(file).st_mtime >= _STARTED_S
    except OSError:
        return False


def _is_what_runs(module: ast.Module, code: CodeType) -> bool:
    """Whether the text of a file, compiled again, gives `code`."""
    return code in _codes(compile(module, code.co_filename, "exec", dont_inherit=True))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(node: ast.AST, class_name: str) -> list[Source]:
    found = []
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.ClassDef) else class_name
        if isinstance(child, FunctionNode):
            found.append(Source(child, class_name, isinstance(node, ast.ClassDef)))
        found.extend(_functions(child, inner))
    return found


def _is_source_of(node: FunctionNode, code: CodeType) -> bool:
    arguments = node.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    if tuple(names) != code.co_varnames[: len(names)]:
        return False
    if isinstance(node, ast.Lambda):
        return code.co_name == "<lambda>" and _holds_all_of(node.body, code)
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return node.name == code.co_name and first == code.co_firstlineno


def _holds_all_of(body: ast.expr, code: CodeType) -> bool:
    """Whether all instructions that have a place stand in `body`."""
    start, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    seen = False
    for line, end_line, column, end_column in code.co_positions():
        if None in (line, end_line, column, end_column) or (column, end_column) == (0, 0):
            continue
        seen = True
        if (line, column) < start or (end_line, end_column) > end:
            return False
    return seen


def _extent(node: FunctionNode) -> tuple[int, int]:
    """A measure of size by which a lambda inside another is the smaller one."""
    lines = (node.end_lineno or node.lineno) - node.lineno
    columns = (node.end_col_offset or 0) - node.col_offset if not lines else 0
    return lines, columns


def with_qualname(code: CodeType, qualname: str) -> CodeType:
    """`code` under this qualified name, and the functions in it under theirs.

    Python's errors show it: "f.<locals>.g() takes 0 positional arguments".
    """
    old = code.co_qualname

    def renamed(part: CodeType) -> CodeType:
        inner = tuple(renamed(c) if isinstance(c, CodeType) else c for c in part.co_consts)
        name = part.co_qualname
        if name.startswith(old):  # not so for one that its function declares global
            name = qualname + name[len(old) :]
        return part.replace(co_qualname=name, co_consts=inner)

    return renamed(code)
