"""Markers and segments by themselves: what holds above them, and what is used again."""

from __future__ import annotations

from peffects.handlers import Reader, State, reader, run_state
from peffects.machine.resuming.answer_log import Raised
from peffects.machine.resuming.frames import (
    TOP,
    HandlerMarker,
    Marker,
    MaskMarker,
    OutsideMarker,
    Segment,
    Spares,
    Unwind,
    UnwindMarker,
    handlers_in_scope,
    innermost_handler,
    is_unwound,
    markers_down_to,
    masked_effects,
    masks_in_scope,
    replace_unwindings,
    unwindings_around,
    unwindings_in,
)
from peffects.source import UNKNOWN


class Deep(State[int]): ...


def installed(below: Marker = TOP, at: type[State[int]] = State) -> HandlerMarker:
    marker = HandlerMarker(run_state(0, at=at), UNKNOWN)
    marker.placed(None, below)
    return marker


def test_a_handler_holds_above_its_marker_and_those_below_it_too() -> None:
    outer = installed()
    inner = installed(outer, at=Deep)
    assert inner.evidence == {State: outer, Deep: inner}
    assert installed(inner).evidence[State] is not outer
    inner.ended()
    assert inner.evidence == {}


def test_a_mask_skips_one_handler_and_leaves_the_next() -> None:
    outer = installed()
    inner = installed(outer)
    once = MaskMarker(State).placed(None, inner)
    assert once.evidence == {State: outer}
    assert MaskMarker(State).placed(None, outer).evidence == {}
    assert MaskMarker(Deep).placed(None, inner).evidence == {State: inner}


def test_masks_are_told_from_the_outermost_in_and_end_at_a_handler() -> None:
    outer = installed(MaskMarker(Reader).placed(None, TOP))
    masks = MaskMarker(Deep).placed(None, MaskMarker(State).placed(None, outer))
    assert masked_effects(masks) == (State, Deep)
    assert masks_in_scope(masks) == [State, Deep, Reader]
    assert innermost_handler(masks) is outer


def test_a_clause_sees_what_its_handler_stands_on() -> None:
    outer = installed()
    inner = installed(MaskMarker(Reader).placed(None, outer), at=Deep)
    clause = OutsideMarker(inner, inner.handler).placed(None, inner)
    assert clause.evidence == outer.evidence
    assert innermost_handler(clause) is outer
    assert masked_effects(clause) == (Reader,)
    assert handlers_in_scope(inner) == [inner, outer]


def test_a_marker_that_has_ended_stands_again_on_what_it_stood_on() -> None:
    spares, below = Spares(), installed()
    for _ in range(2):
        marker = installed(below, at=Deep)
        evidence, marker.spares = marker.evidence, spares
        marker.ended()
        assert spares.take(below) is marker
        assert marker.evidence is evidence
        assert spares.take(below) is None
    marker.spares = spares
    marker.ended()
    unwinding = UnwindMarker(Unwind(), None, None).placed(None, below)
    assert unwinding.evidence is below.evidence
    assert spares.take(unwinding) is None  # it stood on another one
    marker = installed(below, at=Deep)
    marker.spares = spares
    marker.ended()
    below.relink(TOP)
    assert spares.take(below) is None  # other handlers may hold there now


def test_a_marker_that_is_kept_is_no_spare() -> None:
    spares, marker = Spares(), installed()
    marker.spares = spares
    marker.kept()
    assert not spares


def test_a_twin_of_a_segment_has_markers_and_states_of_its_own() -> None:
    owner = installed()
    top = MaskMarker(State).placed(None, installed(owner, at=Deep))
    segment = Segment(None, top, owner)
    twin = segment.twin()
    found = markers_down_to(twin.mark, twin.owner)
    assert [type(m) for m in found] == [MaskMarker, HandlerMarker, HandlerMarker]
    assert not set(found) & set(markers_down_to(top, owner))
    assert twin.owner.below is TOP
    assert twin.owner.handler is not owner.handler
    assert found[0].evidence == {Deep: found[1]}


def test_a_segment_that_is_placed_elsewhere_sees_the_handlers_there() -> None:
    owner = installed()
    segment = Segment(None, installed(owner, at=Deep), owner)
    elsewhere = HandlerMarker(reader(1), UNKNOWN)
    elsewhere.placed(None, TOP)
    top = segment.place_back(owner.handler, None, elsewhere)
    assert top.evidence == {Reader: elsewhere, State: owner, Deep: top}


# --- unwindings ----------------------------------------------------------------------------------


def test_an_unwinding_is_in_progress_until_it_is_replaced() -> None:
    unwind, other = Unwind(), Unwind()
    marker = UnwindMarker(unwind, None, None)
    marker.placed(None, installed())
    above = installed(marker)
    assert is_unwound(above)
    assert not is_unwound(installed())
    replace_unwindings({other}, above)
    assert is_unwound(above)
    replace_unwindings({other, unwind}, above)
    assert not is_unwound(above)
    lasting = UnwindMarker(unwind, None, None, may_be_replaced=False).placed(None, TOP)
    replace_unwindings({unwind}, lasting)
    assert is_unwound(lasting)


def test_the_unwindings_around_an_exception_are_those_that_it_interrupted() -> None:
    unwind = Unwind()
    try:
        try:
            raise unwind
        finally:
            raise KeyError("replaces it")
    except KeyError as error:
        assert unwindings_around(error) == {unwind}
    assert unwindings_around(unwind) == set()
    log = (((None, "call"), "item"), Raised(unwind)), "next"
    assert unwindings_in(log) == {unwind}
    assert unwindings_in(((None, "call"), Raised(ValueError()))) == set()
