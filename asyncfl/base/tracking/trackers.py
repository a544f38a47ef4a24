"""Read `--track` options, and send each row of a run once to several trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asyncfl.base.errors import Fault, ScenarioError
from asyncfl.base.own_classes import describe_exception, own_class
from asyncfl.base.tracking.tracker import Tracker

TENSORBOARD = "tensorboard"


def read_tracker(text: str) -> Tracker:
    """Make the tracker that `--track` names: `tensorboard:DIR`, or a user's class `my_module:MyTracker`.

    Raises ScenarioError for another text or class, OutputError where TensorBoard is not installed.
    """
    kind, colon, place = text.partition(":")
    if kind == TENSORBOARD and colon and place:
        from asyncfl.base.tracking.tensorboard import TensorBoard

        return TensorBoard(Path(place))
    try:
        found = own_class(text)
        made = found() if isinstance(found, type) and issubclass(found, Tracker) else None
    except ImportError as error:
        why = str(error).removeprefix("kind ")
        raise ScenarioError([Fault("--track", f"must be tensorboard:DIR or my_module:MyTracker: {why}")]) from None
    except Exception as error:
        raise ScenarioError([Fault("--track", f"{text} cannot be made: {describe_exception(error)}")]) from None
    if made is None:
        raise ScenarioError([Fault("--track", f"{text} must be a class derived from asyncfl.base.tracking.Tracker")])
    return made


class Trackers:
    """Several trackers of one run. A tracker that raises is dropped; the run continues."""

    def __init__(self, trackers: Sequence[Tracker], warn: Callable[[str], None]) -> None:
        """`warn`: called with a message for each tracker that raises."""
        self._trackers, self._warn = list(trackers), warn
        self._rows: set[tuple[int, int]] = set()

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Begin a run."""
        self._tell(lambda one: one.begin(name, scenario))

    def row(self, row: Mapping[str, Any]) -> None:
        """Send a row of `rounds`, unless it was sent before."""
        key = int(row["seed"]), int(row["version"])
        if key not in self._rows:
            self._rows.add(key)
            self._tell(lambda one: one.row(dict(row)))

    def end(self, rows: Iterable[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
        """End the run. `rows`: all rows of the run; those not yet sent are sent first."""
        for row in rows:
            self.row(row)
        self._tell(lambda one: one.end(summary))

    def close(self) -> None:
        """Close all trackers."""
        self._tell(lambda one: one.close())

    def _tell(self, what: Callable[[Tracker], None]) -> None:
        for one in list(self._trackers):
            try:
                what(one)
            except Exception as error:
                self._trackers.remove(one)
                self._warn(f"the tracker {type(one).__name__} failed and is dropped: {describe_exception(error)}")
