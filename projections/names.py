"""Names of many trials, packed: a fifth of what a dictionary of them takes."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator


class Names(Collection[str]):
    """Different names in the order in which they were added, which numbers them from 0.

    Their UTF-8 lies in one piece. They are found by open addressing: a name's number is at the
    place that its hash says, or at the next free one.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._text = bytearray()
        self._ends = array("I")
        self._places = _free(8)
        for name in names:
            self.add(name)

    def add(self, name: str) -> int:
        """A name's number, which is the next one for a name that is new."""
        data = _bytes(name)
        place = self._place(data)
        number = self._places[place]
        if number < 0:
            number = self._places[place] = len(self._ends)
            self._text += data
            self._ends.append(len(self._text))
            if 3 * len(self._ends) > 2 * len(self._places):
                self._spread()
        return number

    def number(self, name: str) -> int | None:
        """A name's number; None for one that was not added."""
        number = self._places[self._place(_bytes(name))]
        return None if number < 0 else number

    def __getitem__(self, number: int) -> str:
        return self._packed(number).decode("utf-8", "surrogatepass")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.number(name) is not None

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        """Those that are there when this begins."""
        return map(self.__getitem__, range(len(self)))

    def _packed(self, number: int) -> bytes:
        start = self._ends[number - 1] if number else 0
        return bytes(self._text[start : self._ends[number]])

    def _place(self, data: bytes) -> int:
        """Where its number is, or would be."""
        places, ends, text = self._places, self._ends, self._text
        last = len(places) - 1
        place = hash(data) & last
        while (number := places[place]) >= 0:
            start, end = ends[number - 1] if number else 0, ends[number]
            if end - start == len(data) and text.startswith(data, start):  # copies nothing
                break
            place = (place + 1) & last
        return place

    def _spread(self) -> None:
        self._places = _free(2 * len(self._places))
        for number in range(len(self)):
            self._places[self._place(self._packed(number))] = number


def _free(places: int) -> array[int]:
    """So many places, a power of two, each without a number."""
    return array("i", [-1]) * places


def _bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
