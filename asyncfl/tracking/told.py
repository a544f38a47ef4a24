"""Trackers of one run, told together: each row once, in order, also of seeds that were finished before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asyncfl.errors import Fault, ScenarioError
from asyncfl.own_classes import own_class, told
from asyncfl.tracking.base import Tracker

TENSORBOARD = "tensorboard"


def read_tracker(text: str) -> Tracker:
    """The tracker that `--track` names: `tensorboard:DIR`, or the import path `my_module:MyTracker` of one's own.

    Raises ScenarioError where it is none, OutputError where it cannot be had.
    """
    kind, colon, place = text.partition(":")
    if kind == TENSORBOARD and colon and place:
        from asyncfl.tracking.tensorboard import TensorBoard

        return TensorBoard(Path(place))
    try:
        found = own_class(text)
        made = found() if isinstance(found, type) and issubclass(found, Tracker) else None
    except ImportError as error:
        why = str(error).removeprefix("kind ")
        raise ScenarioError([Fault("--track", f"must be tensorboard:DIR or my_module:MyTracker: {why}")]) from None
    except Exception as error:
        raise ScenarioError([Fault("--track", f"{text} cannot be made: {told(error)}")]) from None
    if made is None:
        raise ScenarioError([Fault("--track", f"{text} must be a class derived from asyncfl.tracking.Tracker")])
    return made


class Trackers:
    """Some trackers of a run. One that fails is told no more; the run goes on."""

    def __init__(self, trackers: Sequence[Tracker], warn: Callable[[str], None]) -> None:
        """`warn` is told, in a sentence, of a tracker that fails."""
        self._trackers, self._warn = list(trackers), warn
        self._rows: set[tuple[int, int]] = set()

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """A run begins."""
        self._tell(lambda one: one.begin(name, scenario))

    def row(self, row: Mapping[str, Any]) -> None:
        """A row of the table of rounds; one that was told before is told no more."""
        key = int(row["seed"]), int(row["version"])
        if key not in self._rows:
            self._rows.add(key)
            self._tell(lambda one: one.row(dict(row)))

    def end(self, rows: Iterable[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
        """The run is over; `rows`: all of it, of which those are told that nobody heard of."""
        for row in rows:
            self.row(row)
        self._tell(lambda one: one.end(summary))

    def close(self) -> None:
        """Nothing more comes."""
        self._tell(lambda one: one.close())

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        for one in list(self._trackers):
            try:
                what(one)
            except Exception as error:
                self._trackers.remove(one)
                self._warn(f"the tracker {type(one).__name__} failed and is told no more: {told(error)}")
