"""What every test session needs: threads, a cache of its own, Hypothesis profiles, golden files.

Set before anything imports numba: four threads, so that races and the order of combination are
exercised on small machines too (a run with another PEFFECTS_NUM_THREADS must pass as well).
Compiled code goes to a directory that the session deletes, so no test is answered from an older
session's cache.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

os.environ["NUMBA_NUM_THREADS"] = "4"
os.environ.setdefault("PEFFECTS_NUM_THREADS", "4")
os.environ.setdefault("PEFFECTS_STAGING_STEPS", "100000")  # what has no end is told soon
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell script
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Ctrl-C is tested, also in children
_CACHE_DIR = tempfile.mkdtemp(prefix="peffects-test-cache-")
os.environ["PEFFECTS_CACHE_DIR"] = _CACHE_DIR

import symbol_guard  # noqa: E402  after the environment is set, as it imports the package

symbol_guard.install()

GOLDEN_DIR = Path(__file__).parent / "golden"

# "ci" is reproducible and blind to the clock; "search" looks for new counterexamples:
# HYPOTHESIS_PROFILE=search make test
hypothesis.settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden`."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files anew; review the difference like code",
    )


def pytest_unconfigure() -> None:
    """Delete the session's cache of compiled code."""
    shutil.rmtree(_CACHE_DIR, ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def what_stays_is_not_searched() -> Iterator[None]:
    """After each module, leave what is alive out of later collections.

    Compiled modules and numba's types live as long as the process: to search them again and again
    costs more and more.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compare a text with `tests/golden/<module>/<test>.txt`; `name` replaces `<test>`."""

    def check(text: str, name: str = "") -> None:
        file = name or request.node.name.replace("[", "-").rstrip("]").replace("/", "-")
        path = GOLDEN_DIR / Path(request.node.path).stem / f"{file}.txt"
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert path.exists(), f"no golden file {path}: write it with --update-golden"
        assert text == path.read_text(), f"{path} differs; --update-golden accepts the new text"

    return check
