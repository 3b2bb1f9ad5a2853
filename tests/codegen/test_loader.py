"""Kernels are compiled once per source, in memory and on disk, and never served stale."""

from __future__ import annotations

import gc
import linecache
import math
import os
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
from llvmlite import ir

from peffects.codegen.load import cache
from peffects.codegen.load.loader import load, statistics
from peffects.codegen.native import llvm_values
from peffects.errors import InternalError

ROOT = Path(__file__).resolve().parents[2]

SCALE = """
from peffects.codegen.native.intrinsics import frame_get, frame_set
get, set_ = frame_get("float64"), frame_set("float64")

def scale(chunk, frame):
    set_(frame, 9, get(frame, 8) * {factor})
"""

LAUNCH = """
import sys
from loop_programs import dot
from peffects.codegen.load.loader import statistics
import numpy as np
x = np.arange(100.0)
f = dot(work_ns=100_000)
assert f(x, x, 100) == (x @ x,)
print(statistics.compiled, statistics.from_disk, "numba" in sys.modules)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory of this test."""
    directory = tmp_path / "kernels"
    monkeypatch.setenv("PEFFECTS_CACHE_DIR", str(directory))
    return directory


def source(factor: float) -> str:
    return SCALE.format(factor=factor)


def in_another_process(**settings: str) -> str:
    """What LAUNCH prints in a process of its own."""
    return start(**settings).communicate(timeout=60)[0].strip()


def start(**settings: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    environment = {**os.environ, "PYTHONPATH": path, **settings}
    return subprocess.Popen(
        [sys.executable, "-c", LAUNCH], env=environment, stdout=subprocess.PIPE, text=True
    )


def counts() -> tuple[int, int]:
    return statistics.compiled, statistics.from_disk


def test_source_is_compiled_once_in_a_process(place: Path) -> None:
    compiled, _ = counts()
    module = load(source(2.5), ["scale"])
    assert load(source(2.5), ["scale"]) is module
    assert counts()[0] == compiled + 1
    load(source(2.25), ["scale"])
    assert counts()[0] == compiled + 2


def test_second_process_compiles_nothing_and_imports_no_numba(place: Path) -> None:
    assert in_another_process() == "1 0 True"
    assert in_another_process() == "0 1 False"


def test_changed_settings_of_numba_compile_anew(place: Path) -> None:
    assert in_another_process() == "1 0 True"
    assert in_another_process(NUMBA_OPT="1") == "1 0 True"
    assert in_another_process() == "0 1 False"


def test_kernels_are_compiled_where_the_user_has_turned_numba_off(place: Path) -> None:
    """A debugging aid for the user's own functions, which means nothing for ours."""
    assert in_another_process(NUMBA_DISABLE_JIT="1") == "1 0 True"


def test_processes_may_fill_one_cache_at_once(place: Path) -> None:
    """One of them compiles; the others wait for it."""
    started = [start() for _ in range(3)]
    outputs = [process.communicate(timeout=120)[0].split() for process in started]
    assert sorted(output[:2] for output in outputs) == [["0", "1"], ["0", "1"], ["1", "0"]]
    assert len(list(cache.entries())) == 1
    assert [path.suffix for path in place.iterdir()] == [".kernels"]
    assert in_another_process() == "0 1 False"


def test_load_from_disk_is_quick(place: Path) -> None:
    """Not an exact measurement: a compilation takes a hundred times as long."""
    load(source(3.5), ["scale"])
    gc.collect()
    before = counts()
    began = time.perf_counter()
    module = load(source(3.5), ["scale"])
    assert counts() == (before[0], before[1] + 1), "the first module was freed"
    assert time.perf_counter() - began < 0.1
    assert module.addresses["scale"]


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_damaged_entry_is_compiled_anew_and_replaced(place: Path, damage: str) -> None:
    load(source(4.5), ["scale"])
    gc.collect()
    (entry,) = cache.entries()
    data = bytearray(entry.path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "flip":
        data[-100] ^= 1
    else:
        data.clear()
    entry.path.write_bytes(data)
    before = counts()
    load(source(4.5), ["scale"])
    assert counts() == (before[0] + 1, before[1])
    gc.collect()
    load(source(4.5), ["scale"])
    assert counts() == (before[0] + 1, before[1] + 1)


def test_machine_code_is_freed_with_its_module(place: Path) -> None:
    module = load(source(5.5), ["scale"])
    reference = weakref.ref(module._image)
    del module
    gc.collect()
    assert reference() is None


def test_compilations_leave_nothing_behind(place: Path) -> None:
    """Of 200 kB a compilation: LLVM's context and pass managers, the syntax tree, the lines."""
    load(source(0.5), ["scale"])
    before = sorted(name for name in linecache.cache if name.startswith("<peffects"))
    compiled, size = counts()[0], 0
    for number in range(1, 61):
        load(source(1000.0 + number), ["scale"])
        if number == 20:
            gc.collect()
            size = resident_bytes()
    gc.collect()
    assert counts()[0] == compiled + 60
    assert resident_bytes() - size < 40 * 60_000
    assert sorted(name for name in linecache.cache if name.startswith("<peffects")) == before
    assert not any(map(is_kernels, gc.get_objects()))


def is_kernels(each: object) -> bool:
    """Whether an object is LLVM's module of some kernels; weak proxies of others are dead."""
    try:
        return isinstance(each, ir.Module) and "kernels" in each.name
    except ReferenceError:
        return False


def resident_bytes() -> int:
    """The memory that the process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def test_function_whose_text_is_in_no_key_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its change would go on giving the code of before."""
    text = source(8.5).replace("* 8.5", "* half(8.5)")
    text = "from peffects.numerics.special import digamma as half\n" + text
    load(text, ["scale"])
    assert len(list(cache.entries())) == 1
    cache.clear()
    known = cache.compiled_texts()
    special = {path for path in known if path.endswith("special.py")}
    monkeypatch.setattr(cache, "compiled_texts", lambda: known - special)
    gc.collect()
    with pytest.raises(InternalError, match=r"a function of special\.py, whose text is not part"):
        load(text, ["scale"])


def test_key_distinguishes_what_the_source_does_not(place: Path) -> None:
    assert load(source(6.5), ["scale"], "a") is not load(source(6.5), ["scale"], "b")


def test_symbol_that_the_process_does_not_have_is_our_bug(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM would jump to address 0."""
    text = "import math\n" + source(7.5).replace("* 7.5", "+ math.tan(7.5)")
    missing = llvm_values._library("no_such_function")
    monkeypatch.setitem(llvm_values.MATH, math.tan, missing)
    with pytest.raises(InternalError, match="The kernels scale refer to no_such_function"):
        load(text, ["scale"])
    assert not list(cache.entries())
