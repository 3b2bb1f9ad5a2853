"""A process that checks programs for the search, which outlives its crashes and hangs.

One line in: `[kind, seed or null, row or null]`.  One line out: the row of choices, the program,
and a word for what became of it or the failure.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from typing import IO, Any

import numpy as np
from fuzz.choices import Replayed, Seeded
from fuzz.kinds import ALL_KINDS

__all__ = ["answer", "main"]


def answer(kind: str, seed: int | None, row: list[int] | None) -> dict[str, Any]:
    """Draw and check one program."""
    choices: Any = Seeded(seed) if row is None else Replayed(row)  # type: ignore[arg-type]
    case = ALL_KINDS[kind].draw(choices)
    told: dict[str, Any] = {
        "row": choices.row if row is None else row, "script": case.script(f"{kind}:{seed}"),
    }  # fmt: skip
    try:
        return told | {"word": case.check()}
    except BaseException as error:
        lines = traceback.format_exception(error)
        return told | {"failure": f"{type(error).__name__}: {error}", "trace": "".join(lines)}


def main() -> None:
    """Answer until the input ends; what programs print is lost."""
    told: IO[str] = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    print(json.dumps({"ready": True}), file=told, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), file=told, flush=True)


if __name__ == "__main__":
    main()
