"""Tables that do not grow for ever: what is known about an object goes when the object goes.

`functools.cache` keeps its arguments alive, and so the code and the modules of functions that
nobody has any more; a `WeakKeyDictionary` takes equal code objects of two files for one.
`remembered` does neither.  What has no end of its own, such as the names of files, is kept in a
`Recent`, up to a number.  Layer 0.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["Recent", "Remembered", "remembered"]

K = TypeVar("K")
V = TypeVar("V")


class Remembered(Generic[K, V]):
    """A function of one object that is computed once for each, told by identity.

    What it gives must not hold the object, or neither would ever be freed.
    """

    __slots__ = ("_forget", "_known", "_make", "_references")

    def __init__(self, make: Callable[[K], V]) -> None:
        self._make = make
        self._known: dict[int, V] = {}
        self._references: dict[int, weakref.ref[Any]] = {}
        known, references = self._known, self._references

        def forget(number: int) -> None:
            known.pop(number, None)
            references.pop(number, None)

        self._forget = forget

    def __call__(self, key: K) -> V:
        """What is known of `key`, found out now if it is not."""
        try:
            return self._known[id(key)]
        except KeyError:
            return self._learn(key)

    def _learn(self, key: K) -> V:
        value = self._make(key)
        number, forget = id(key), self._forget
        # Called before the memory of `key`, and so its id, can be another object's.
        self._references[number] = weakref.ref(key, lambda _: forget(number))
        self._known[number] = value
        return value

    def __contains__(self, key: K) -> bool:
        return id(key) in self._known

    def __len__(self) -> int:
        return len(self._known)


def remembered(make: Callable[[K], V]) -> Remembered[K, V]:
    """Decorate a function of one object, to compute it once for each while the object lives."""
    return Remembered(make)


class Recent(Generic[K, V]):
    """A table of at most `most` entries; those that were asked for least recently go first.

    `forget` is called with the key of each that goes for want of room.

    Without a lock, which a forked child would find taken: two threads at once may forget an entry
    too many or too few.
    """

    __slots__ = ("_entries", "_forget", "_most")

    def __init__(self, most: int, forget: Callable[[K], object] | None = None) -> None:
        self._most = most
        self._forget = forget
        self._entries: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """The entry of `key`, which becomes the most recent one; None if there is none."""
        found = self._entries.pop(key, None)
        if found is not None:
            self._entries[key] = found
        return found

    def keep(self, key: K, value: V) -> V:
        """Remember `value`, and forget the oldest entries if there are too many."""
        entries = self._entries
        entries.pop(key, None)
        entries[key] = value
        while len(entries) > self._most:
            try:
                oldest = next(iter(entries))
            except (StopIteration, RuntimeError):  # another thread was quicker
                break
            if entries.pop(oldest, None) is not None and self._forget is not None:
                self._forget(oldest)
        return value

    def __len__(self) -> int:
        return len(self._entries)
