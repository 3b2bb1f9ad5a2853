"""A dialogue that can be tested: the program guesses a number that the player has in mind.

`guess` talks through `Console`, guesses through `Random`, and gives up with `Throw` when answers
contradict each other.  None of that names a keyboard.

Notice: `terminal()` and `scripted(lines)` are two handlers of one effect, so a test is a list of
lines, and what it checks is the whole dialogue, prompts included.  The honest player is a handler
too: it answers from the number it has in mind, and needs no script.
"""

from __future__ import annotations

from typing import Any

from peffects import Eff, Handler, effectful, handle, run
from peffects.handlers import (
    Console,
    Random,
    ReadLine,
    Throw,
    WriteLine,
    integers,
    prng,
    read_line,
    scripted,
    terminal,
    throw,
    weak_exceptions,
    write_line,
)

HIGHEST = 100


@effectful
def ask_about(number: int) -> Eff[Console, str]:
    """Ask until the answer is one that we understand."""
    while True:
        answer = yield from read_line(f"is it {number}? (yes, less, more) ")
        if answer in ("yes", "less", "more"):
            return answer
        yield from write_line(f"I do not understand {answer!r}.")


@effectful
def guess() -> Eff[Console | Random | Throw[str], int]:
    """Guess the number; gives how many questions it took."""
    low, high, questions = 1, HIGHEST + 1, 0
    yield from write_line(f"Think of a number from 1 to {HIGHEST}.")
    while low < high:
        middle = (low + high) // 2
        number = yield from integers(max(low, middle - 2), min(high, middle + 3))
        questions += 1
        answer = yield from ask_about(number)
        if answer == "yes":
            yield from write_line(f"Found it with {questions} questions.")
            return questions
        low, high = (low, number) if answer == "less" else (number + 1, high)
    yield from throw(f"no number is left after {questions} questions")
    return questions


class honest_player(Handler[Console]):
    """Has a number in mind, and answers truthfully; the answer is (lines written, result)."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.written: tuple[str, ...] = ()

    def ret(self, x: Any) -> tuple[list[str], Any]:
        """What was written comes first."""
        return list(self.written), x

    def read_line(self, op: ReadLine) -> str:
        """Compare."""
        asked = int(op.prompt.split("?")[0].split()[-1])
        return "yes" if asked == self.number else "less" if self.number < asked else "more"

    def write_line(self, op: WriteLine) -> None:
        """Keep it."""
        self.written = (*self.written, op.text)


def play(console: Handler[Console], seed: int) -> Any:
    """One game, with this console; the answer is the console's, around `Ok` or `Err`."""
    return run(handle(console, handle(weak_exceptions(), handle(prng(seed), guess()))))


def main(small: bool = False) -> None:
    """Play scripts, then all numbers, then with you."""
    for script in (["more", "less", "perhaps", "yes"], ["less"] * 9):
        lines, result = play(scripted(script), seed=1)
        print("\n".join(lines))
        print(f"-> {result}\n")
    questions = [play(honest_player(n), seed=n)[1].value for n in range(1, HIGHEST + 1)]
    mean = sum(questions) / HIGHEST
    print(f"all numbers: {mean:.2f} questions on average, {max(questions)} at most")
    if not small:
        print()
        play(terminal(), seed=0)


if __name__ == "__main__":
    main()
