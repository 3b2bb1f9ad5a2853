"""An explanation as a page of HTML: one file, light or dark, in which lines find each other.

The user's source stands on the left, what became of it on the right: the loops, the program, each
pass with the program before and after it, the generated source.  A line of any of them knows the
user's line that it comes from; pointing at one marks all that belong together, and its number leads
to the source.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from peffects.ir.print import lines_with_places
from peffects.ir.syntax import Program
from peffects.kernels.pipeline import Compiled
from peffects.optimize.passes import PassResult
from peffects.source import UNKNOWN, SrcInfo, lines_of

__all__ = ["Page", "Panel", "framed", "html_of", "program_page", "text_page"]

_AROUND = 2
"""Lines of the user's source that are shown before and after those that became something."""
_COMMENT = re.compile(r"# (?P<file>[^\s:]+):(?P<line>\d+)$")
_FRAME_PIXELS = 640

Line = tuple[str, SrcInfo]
"""A line of text, and the user's line that it comes from."""


@dataclass(frozen=True, slots=True)
class Panel:
    """A part of a page that can be folded; its panels come after its lines."""

    title: str
    lines: tuple[Line, ...]
    panels: tuple[Panel, ...] = ()
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows; the source is put together from the places of all lines."""

    name: str
    panels: tuple[Panel, ...]


def program_page(
    name: str, compiled: Compiled, steps: Sequence[PassResult], sections: Mapping[str, str]
) -> Page:
    """The page of a compiled program, whose sections as text are known."""
    decisions = compiled.lowered.decisions
    loops = zip(
        sections["loops"].splitlines(), [d.src for d in decisions] or [UNKNOWN], strict=True
    )
    passes = tuple(_pass(step) for step in steps)
    panels = (
        Panel("loops", tuple(loops), is_open=True),
        Panel("stages", _plain(sections["stages"]), is_open=True),
        Panel("program", _program(compiled.program), is_open=True),
        Panel("passes", () if passes else _plain(sections["passes"]), passes),
        Panel("optimized program", _program(compiled.optimized)),
        Panel("generated source", tuple(_generated(sections["generated source"], compiled))),
    )
    return Page(name, panels)


def text_page(name: str, sections: Mapping[str, str]) -> Page:
    """A page of sections without places."""
    panels = (Panel(title, _plain(text), is_open=True) for title, text in sections.items())
    return Page(name, tuple(panels))


def _pass(step: PassResult) -> Panel:
    before, after = Panel("before", _program(step.before)), Panel("after", _program(step.after))
    return Panel(step.name, (), (before, after))


def _program(program: Program) -> tuple[Line, ...]:
    return tuple(lines_with_places(program))


def _plain(text: str) -> tuple[Line, ...]:
    return tuple((line, UNKNOWN) for line in text.splitlines())


def _generated(text: str, compiled: Compiled) -> Iterator[Line]:
    """The lines of generated source; comments in it say where the following ones come from."""
    files = {os.path.basename(src.file): src.file for src in _places(compiled)}
    place = UNKNOWN
    for line in text.splitlines():
        comment = _COMMENT.search(line)
        if comment is not None and comment["file"] in files:
            place = SrcInfo(files[comment["file"]], int(comment["line"]))
        elif line.startswith("def "):
            place = UNKNOWN
        yield line, place


def _places(compiled: Compiled) -> Iterator[SrcInfo]:
    for program in (compiled.program, compiled.optimized):
        for _, src in lines_with_places(program):
            yield src


# --- HTML ----------------------------------------------------------------------------------------


def html_of(page: Page) -> str:
    """The page as one HTML document."""
    name = html.escape(page.name)
    body = "\n".join(_panel(panel) for panel in page.panels)
    return _DOCUMENT.format(
        name=name, style=_STYLE, script=_SCRIPT, source=_source(page), body=body
    )


def framed(document: str) -> str:
    """The document in a frame, for pages that have styles of their own."""
    text = html.escape(document, quote=True)
    return f'<iframe srcdoc="{text}" style="width:100%;height:{_FRAME_PIXELS}px;border:0"></iframe>'


def _panel(panel: Panel) -> str:
    state = " open" if panel.is_open else ""
    parts = [f"<details{state}><summary>{html.escape(panel.title)}</summary>"]
    if panel.lines:
        parts.append(_listing(_row(text, src) for text, src in panel.lines))
    parts += map(_panel, panel.panels)
    return "\n".join([*parts, "</details>"])


def _listing(rows: Iterable[str]) -> str:
    return f"<pre>{''.join(rows)}</pre>"


def _row(text: str, src: SrcInfo) -> str:
    """A line, with the number of the user's line that it comes from."""
    number = f'<a href="#{_key(src)}">{src.line}</a>' if src.line else "<a></a>"
    return f'<span data-at="{_key(src)}">{number}{html.escape(text)}\n</span>'


def _key(src: SrcInfo) -> str:
    """What lines that belong together share."""
    return html.escape(f"{os.path.basename(src.file)}:{src.line}") if src.line else ""


def _source(page: Page) -> str:
    """The user's lines from which something came, file by file, with some around them."""
    used: dict[str, set[int]] = {}
    for panel in page.panels:
        _collect(panel, used)
    parts = []
    for file, numbers in used.items():
        parts.append(f"<h2>{html.escape(os.path.basename(file))}</h2>")
        parts.append(_listing(_source_rows(file, numbers)))
    return "\n".join(parts) or "<p>There is no source.</p>"


def _collect(panel: Panel, used: dict[str, set[int]]) -> None:
    for _, src in panel.lines:
        if src.line:
            used.setdefault(src.file, set()).add(src.line)
    for inner in panel.panels:
        _collect(inner, used)


def _source_rows(file: str, numbers: set[int]) -> Iterator[str]:
    lines = lines_of(file)
    shown = sorted(
        {k for n in numbers for k in range(n - _AROUND, n + _AROUND + 1) if 0 < k <= len(lines)}
        or numbers
    )
    previous = shown[0] - 1
    for number in shown:
        if number != previous + 1:
            yield "<a></a>⋮\n"
        previous = number
        text = lines[number - 1].rstrip("\n") if number <= len(lines) else ""
        key = _key(SrcInfo(file, number))
        used = f' data-at="{key}" id="{key}"' if number in numbers else ""
        yield f"<span{used}><a>{number}</a>{html.escape(text)}\n</span>"


_STYLE = """
:root { color-scheme: light dark; --mark: #ffe9a8; --line: #d0d0d0; --dim: #767676; }
@media (prefers-color-scheme: dark) { :root { --mark: #5a4a10; --line: #444; --dim: #9a9a9a; } }
body { font: 14px/1.4 system-ui, sans-serif; margin: 1rem; }
main { display: grid; grid-template-columns: minmax(20rem, 2fr) 3fr; gap: 1.5rem; }
section:first-child { position: sticky; top: 1rem; align-self: start; max-height: 95vh; }
section { overflow: auto; }
h1 { font-size: 1.2rem; } h2 { font-size: 1rem; margin: 0.5rem 0; }
pre { font: 12px/1.5 ui-monospace, monospace; overflow-x: auto; margin: 0.3rem 0 0.8rem; }
pre span { display: block; } pre a { display: inline-block; width: 3.5em; color: var(--dim); }
pre a { text-decoration: none; user-select: none; }
details { border-top: 1px solid var(--line); padding: 0.3rem 0; }
details details { margin-left: 1rem; } summary { cursor: pointer; font-weight: 600; }
.marked, :target { background: var(--mark); }
@media (max-width: 60rem) { main { display: block; } section:first-child { position: static; } }
"""
_SCRIPT = """
document.addEventListener("mouseover", event => {
  const at = event.target.closest("[data-at]")?.dataset.at;
  for (const line of document.querySelectorAll(".marked")) line.classList.remove("marked");
  if (!at) return;
  for (const line of document.querySelectorAll("[data-at]"))
    if (line.dataset.at === at) line.classList.add("marked");
});
"""
_DOCUMENT = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{name}</title>
<style>{style}</style>
</head>
<body>
<h1>{name}</h1>
<main>
<section>
{source}
</section>
<section>
{body}
</section>
</main>
<script>{script}</script>
</body>
</html>
"""
