"""Run the benchmarks and print a table: `python benchmarks/run.py [WORD ...]`.

A benchmark is `benchmarks/bench_*.py` with `main() -> list[Row]`.  With words, only those whose
name contains one of them run.  Where a benchmark's peer is not installed it says so and is skipped:
the peers live in an environment of their own (`setup_peers.sh`).
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from timing import Row, advice, threads

HERE = Path(__file__).resolve().parent
PEERS = {"jax", "torch", "stateless", "effectful"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run what `argv` names; 1 when nothing matches."""
    parser = argparse.ArgumentParser(description="Run benchmarks and print ratios to their peers.")
    parser.add_argument(
        "words", nargs="*", help="run only benchmarks with one of these in the name"
    )
    words = parser.parse_args(argv).words
    files = find(HERE, words)
    if not files:
        print(f"no benchmark matches {' '.join(words) or 'bench_*.py'}", file=sys.stderr)
        return 1
    print(f"best of many, interleaved: {threads()}")
    for sentence in advice():
        print(f"note: {sentence}")
    for file in files:
        print(f"\n{file.stem}")
        print(report(file))
    return 0


def find(folder: Path, words: Sequence[str]) -> list[Path]:
    """The benchmarks in `folder` whose name contains one of `words`; all without words."""
    files = sorted(folder.glob("bench_*.py"))
    return [file for file in files if not words or any(word in file.stem for word in words)]


def report(file: Path) -> str:
    """The table of one benchmark, or why there is none."""
    try:
        return table(rows_of(file))
    except ModuleNotFoundError as missing:
        if missing.name not in PEERS:
            raise
        return f"  skipped: {missing.name} is not installed (benchmarks/setup_peers.sh)"


def rows_of(file: Path) -> list[Row]:
    """Import a benchmark by its path and run it."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    rows: list[Row] = module.main()
    return rows


def table(rows: Iterable[Row]) -> str:
    """`rows` as aligned text; the ratio with the range of single rounds."""
    lines = [("", "ours", "peer", "", "ratio")]
    for row in rows:
        if math.isnan(row.ratio):
            lines.append((row.name, duration(row.ours_s), "", "", ""))
        else:
            ratio = f"{row.ratio:.2f} ({row.low:.2f} to {row.high:.2f})"
            lines.append((row.name, duration(row.ours_s), duration(row.peer_s), row.peer, ratio))
    widths = [max(len(line[k]) for line in lines) for k in range(5)]
    return "\n".join(
        f"  {name:<{widths[0]}}  {ours:>{widths[1]}}  {peer_s:>{widths[2]}}  "
        f"{peer:<{widths[3]}}  {ratio}".rstrip()
        for name, ours, peer_s, peer, ratio in lines
    )


def duration(seconds: float) -> str:
    """Three digits and a unit: `1.23 ms`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.9995 * size:
            return f"{seconds / size:#.3g}".rstrip(".") + f" {unit}"
    return f"{seconds / 1e-9:#.3g}".rstrip(".") + " ns"


if __name__ == "__main__":
    sys.exit(main())
