"""`explain`: every section is right, for kernels, derivatives and plain functions."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import peffects as pe
from peffects import Eff, Fin, Par, effectful, handle, pfor
from peffects.errors import KernelTypeError
from peffects.handlers import (
    Accum,
    State,
    Throw,
    accum,
    accumulate,
    run_state,
    weak_exceptions,
)
from peffects.optimize.pipeline import LAST, PASSES

X = np.arange(1000.0)
PASS_NAMES = [name for name, _ in (*PASSES, *LAST)]
SECTIONS = [
    "program", "passes", "optimized program", "loops", "stages", "generated source",
]  # fmt: skip


@pe.kernel
def histogram(x: Any, bins: Any) -> Any:
    h: Any = pe.accumulator(pe.Fin(bins), dtype=float)
    for i in pe.par(x):
        h[int(x[i])] += 1.0
    return h


@pe.kernel
def smoothed(x: Any, steps: Any) -> Any:
    mean = pe.mean(lambda i: x[i])
    for _ in range(steps):
        mean = 0.5 * mean + pe.max(lambda i: x[i] * mean)  # noqa: B023
    return pe.table(lambda i: x[i] - mean)


def test_sections_of_a_histogram(golden: Callable[..., None]) -> None:
    explanation = pe.explain(histogram, X, 3)
    assert list(explanation.sections) == SECTIONS
    assert explanation.name == "histogram"
    golden(f"{explanation.sections['loops']}\n\n{explanation.sections['stages']}")


def test_loops_say_what_is_parallel_and_why() -> None:
    loops = pe.explain(smoothed, X, 3).sections["loops"]
    assert "`for i` runs in parallel: iterations run in any order" in loops
    assert "is a reduction: all iterations of i add to the same elements" in loops
    assert "`fold` is a loop of stages: each iteration needs the one before" in loops
    assert "test_explanation.py" in loops


def test_stages_have_numbers_for_the_sizes_of_the_call() -> None:
    few = pe.explain(pe.grad(smoothed_sum), X).sections["stages"]
    many = pe.explain(pe.grad(smoothed_sum), np.zeros(2_000_000)).sections["stages"]
    assert "1,000 iterations in one chunk, as it is small" in few
    assert "2,000,000 iterations in" in many and "ms of one thread" in many
    assert "µs" in few or "less than" in few


def smoothed_sum(x: Any) -> Any:
    return pe.sum(lambda i: pe.exp(x[i]))


def test_unknown_work_is_said_to_be_unknown() -> None:
    def halved(x: Any) -> Any:
        while x > 1.0:
            x = x / 2
        return x

    assert "work known at run time only" in pe.explain(halved, 8.0).sections["stages"]


def test_nothing_runs_and_nothing_is_compiled_twice() -> None:
    kernel = pe.kernel(smoothed_sum)
    first = pe.explain(kernel, X)
    assert repr(kernel) == "<kernel smoothed_sum, 1 specialization>"
    assert str(pe.explain(kernel, X)) == str(first) == repr(first)
    assert repr(kernel) == "<kernel smoothed_sum, 1 specialization>"
    with pytest.raises(TypeError):
        pe.explain(kernel)


def test_derivatives_and_plain_functions() -> None:
    gradient = pe.explain(pe.value_and_grad(smoothed_sum), X)
    assert gradient.name == "grad_smoothed_sum"
    assert "exp(" in gradient.sections["program"]
    source = pe.explain(lambda x: x * 2.0, 3.0).sections["generated source"]
    assert "* 2.0" in source and "# test_explanation.py:" in source


def test_the_program_that_is_shown_is_the_one_that_runs() -> None:
    explanation = pe.explain(smoothed_sum, X)
    assert "for i:" in explanation.sections["program"]
    assert "def smoothed_sum_0(chunk, frame):" in explanation.sections["generated source"]


def test_text_and_file(tmp_path: Path) -> None:
    explanation = pe.explain(smoothed_sum, X)
    text = str(explanation)
    assert [line for line in text.splitlines() if line.startswith("==")] == [
        f"== {title} of smoothed_sum ==" for title in SECTIONS
    ]
    explanation.save(tmp_path / "explanation.txt")
    assert (tmp_path / "explanation.txt").read_text("utf-8") == text + "\n"


# --- passes, costs -------------------------------------------------------------------------------


def test_passes_tell_what_each_changed() -> None:
    def doubled_sum(x: Any) -> Any:
        y = pe.table(lambda i: 2.0 * x[i])
        return pe.sum(lambda i: y[i] + y[i])

    passes = pe.explain(doubled_sum, X).sections["passes"]
    assert "inline_tables:\n" in passes
    assert re.search(r"(?m)^  -\s+y = for i:x_0\.$", passes)
    assert pe.explain(lambda x: x, 1.0).sections["passes"] == "none changed the program"


@pe.kernel
def dot(x: Any, y: Any) -> Any:
    return pe.sum(lambda i: x[i] * y[i])


@pe.kernel
def distances(a: Any, b: Any) -> Any:
    return pe.table(lambda i, j: pe.sum(lambda k: abs(a[i, k] - b[k, j])))


@pe.kernel
def scaled(x: Any) -> Any:
    return pe.table(lambda i: 3.0 * x[i] + 1.0)


@pytest.mark.parametrize("n", [1, 127, 128, 1000, 100_000])
def test_operations_and_bytes_of_vectors(n: int) -> None:
    x = np.ones(n)
    stages = pe.explain(scaled, x).sections["stages"]
    assert f" {2 * n:,} operations on {16 * n:,} bytes (0.12 a byte)" in stages
    found = re.search(
        r"([\d,]+) operations on ([\d,]+) bytes", pe.explain(dot, x, x).sections["stages"]
    )
    assert found is not None
    operations, bytes_ = (int(group.replace(",", "")) for group in found.groups())
    assert operations == 2 * n
    assert 16 * n <= bytes_ <= 16 * n + 64 * 8 * 130  # the partial results of 64 chunks


def test_operations_and_bytes_of_nested_loops() -> None:
    n, m, p = 50, 512, 30
    stages = pe.explain(distances, np.ones((n, m)), np.ones((m, p))).sections["stages"]
    found = re.search(r"([\d,]+) operations on ([\d,]+) bytes", stages)
    assert found is not None
    operations, bytes_ = (int(group.replace(",", "")) for group in found.groups())
    assert operations == pytest.approx(3 * n * m * p, rel=0.05)
    each_once = 8 * (n * m + m * p + n * p)
    assert each_once <= bytes_ <= 2 * each_once


def test_a_matrix_product_is_named() -> None:
    def product(a: Any, b: Any) -> Any:
        return pe.table(lambda i, j: pe.sum(lambda k: a[i, k] * b[k, j]))

    explanation = pe.explain(product, np.ones((50, 40)), np.ones((40, 30)))
    assert "matrix product" in explanation.sections["loops"]
    Reader(explanation.html())


def test_triangles_have_their_middle_length() -> None:
    def triangle(x: Any) -> Any:
        return pe.table(lambda i: pe.sum(lambda j: x[j], over=i + 1), over=x)

    stages = pe.explain(triangle, np.ones(4000)).sections["stages"]
    found = re.search(r"([\d,]+) operations", stages)
    assert found is not None and int(found[1].replace(",", "")) == pytest.approx(
        8_000_000, rel=0.01
    )


# --- pages ---------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """What a browser would see: open tags, links and their targets, what is fetched."""

    EMPTY: ClassVar[set[str]] = {"meta", "br", "link", "img"}

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.fetched: list[str] = []
        self.summaries: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag not in self.EMPTY:
            self.open.append(tag)
        if found.get("href"):
            self.links.add(str(found["href"]).removeprefix("#"))
        if found.get("id"):
            self.places.add(str(found["id"]))
        self.fetched += [str(found["src"])] if "src" in found else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "summary":
            self.summaries.append(data)


def test_a_page_holds_together_and_needs_nothing_else(tmp_path: Path) -> None:
    explanation = pe.explain(smoothed, X, 3)
    explanation.save(tmp_path / "smoothed.html")
    page = (tmp_path / "smoothed.html").read_text("utf-8")
    assert page == explanation.html()
    seen = Reader(page)
    assert seen.open == [] and seen.fetched == []
    assert "http" not in page and "@import" not in page
    assert seen.links and seen.links <= seen.places
    assert {*SECTIONS, "before", "after", "fuse_loops"} >= set(seen.summaries) - set(PASS_NAMES)
    assert set(SECTIONS) <= set(seen.summaries)
    assert "prefers-color-scheme: dark" in page


def test_lines_of_a_page_know_the_user_s_lines() -> None:
    page = pe.explain(histogram, X, 3).html()
    line = next(
        number
        for number, text in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text.strip() == "h[int(x[i])] += 1.0"
    )
    key = f"test_explanation.py:{line}"
    assert f'id="{key}"' in page
    assert page.count(f'data-at="{key}"') > 5  # program, optimized program, loops, source, passes
    assert "h[int(x[i])] += 1.0" in page


def test_text_is_escaped_in_pages() -> None:
    page = pe.explain(lambda x: pe.where(x < 2.0, x, 0.0), 1.0).html()
    assert "x &lt; 2.0" in page and "x < 2.0" not in page
    Reader(page)


def test_a_notebook_shows_the_page_in_a_frame() -> None:
    explanation = pe.explain(smoothed_sum, X)
    frame = explanation._repr_html_()
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" style="[^"]*"></iframe>', frame)
    assert found is not None
    assert html.unescape(found[1]) == explanation.html()


# --- effectful programs --------------------------------------------------------------------------


@effectful
def step(i: int) -> Eff[Accum[str] | Throw[str], None]:
    yield from accum(str(i))


@effectful
def program() -> Eff[Accum[str] | Throw[str] | State[int] | Par, dict[str, int]]:
    yield from pfor(Fin(5), step)
    return {}


def test_effects_of_a_function_are_those_of_its_type() -> None:
    sections = pe.explain(program).sections
    assert list(sections) == ["effects", "handlers", "loops"]
    assert "performs Accum[str] | Throw[str] | State[int] | Par" in sections["effects"]
    assert "gives dict[str, int]" in sections["effects"]
    assert "test_explanation.py" in sections["effects"]

    @effectful
    def unannotated():  # type: ignore[no-untyped-def]
        yield from accum(1)

    assert "not written down" in pe.explain(unannotated).sections["effects"]


def test_handlers_are_told_from_the_outside_with_what_they_do_around_loops() -> None:
    inner = handle(weak_exceptions(), handle(run_state(3), program()))
    explanation = pe.explain(handle(accumulate("", str.__add__), inner))
    outer, middle, innermost = explanation.sections["handlers"].splitlines()
    assert "handles Accum" in outer and "its traverse clause runs the loop" in outer
    assert "handles Throw" in middle
    assert "handles State" in innermost and "refused: it is sequential" in innermost
    assert "left by the handlers: Par" in explanation.sections["effects"]
    Reader(explanation.html())


def test_a_loop_is_told_with_its_body() -> None:
    sections = pe.explain(pfor(Fin(5), step)).sections
    assert "Fin(5): `step` runs in the effect machine" in sections["loops"]
    assert "performs Accum[str] | Throw[str]" in sections["effects"]


def test_named_instances_are_what_a_handler_handles() -> None:
    class Fuel(State[int]): ...

    sections = pe.explain(handle(run_state(3, at=Fuel), program())).sections
    assert "handles Fuel" in sections["handlers"]
    assert "left by the handlers: Accum[str] | Throw[str] | State[int] | Par" in sections["effects"]


def accum_never() -> Eff[Throw[str], None]:
    raise AssertionError("an explanation performs nothing")


def test_nothing_is_performed() -> None:
    @effectful
    def fails() -> Eff[Throw[str], None]:
        yield from accum_never()

    assert "performs Throw[str]" in pe.explain(fails).sections["effects"]
    assert "performs Throw[str]" in pe.explain(fails()).sections["effects"]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(KernelTypeError, match=r"which is no function(.|\n)*pe\.explain\(f, x\)"):
        pe.explain(smoothed_sum(X))
