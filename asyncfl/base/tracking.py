"""Trackers that follow a run while it is computed: TensorBoard, JSON lines, or a class of your own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from asyncfl.base.errors import Fault, OutputError, ScenarioError
from asyncfl.base.own_classes import describe_exception, own_class


class Tracker:
    """Base class of trackers. Its methods do nothing; an exception in an override does not end the run."""

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        """Begin a run, or the reading of a finished one. `name`: 16 hexadecimal digits; `scenario`: plain values."""

    def row(self, row: Mapping[str, Any]) -> None:
        """Receive a published version as a row of `rounds`, see `docs/columns.md`. NaN: not measured.

        Rows come seed after seed, in order of `version`.
        """

    def end(self, summary: Mapping[str, Any]) -> None:
        """Receive the summary of the complete run, the content of `summary.json`."""

    def close(self) -> None:
        """Release resources. Called last, also after an interrupted run."""


class JsonLines(Tracker):
    """Writer of the lines `{"begin": ...}`, `{"row": ...}` for each version, and `{"end": ...}`.

    Infinities and NaN, which JSON lacks, become null.
    """

    def __init__(self, to: IO[str], folder: str) -> None:
        self._to, self._folder = to, folder

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        self._write({"begin": {"run": name, "scenario": scenario}})

    def row(self, row: Mapping[str, Any]) -> None:
        self._write({"row": row})

    def end(self, summary: Mapping[str, Any]) -> None:
        self._write({"end": {"folder": self._folder, "summary": summary}})

    def _write(self, value: Any) -> None:
        print(json.dumps(plain_json(value), ensure_ascii=False), file=self._to, flush=True)


def plain_json(value: Any) -> Any:
    """Return plain values as JSON can hold them: infinities and NaN become null, NumPy's numbers Python's."""
    if isinstance(value, Mapping):
        return {str(key): plain_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(inner) for inner in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None


class TensorBoard(Tracker):
    """Writer of `<folder>/<run>/seed-<seed>`, for `tensorboard --logdir <folder>`."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise OutputError("--track tensorboard needs TensorBoard: pip install 'asyncfl[tensorboard]'") from None
        self._make: Any = SummaryWriter
        self._folder = folder
        self._writers: dict[int, Any] = {}

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
        self._folder = self._folder / name
        self._scenario = json.dumps(scenario, indent=2)

    def row(self, row: Mapping[str, Any]) -> None:
        """Write each finite number of the row as a scalar, with the version as step."""
        seed = int(row["seed"])
        if seed not in self._writers:
            # Purging hides the scalars of an earlier attempt, so that no curve is drawn twice.
            self._writers[seed] = self._make(str(self._folder / f"seed-{seed}"), purge_step=0)
            self._writers[seed].add_text("scenario", f"```json\n{self._scenario}\n```")
        for name, value in row.items():
            if name not in ("seed", "version", "diverged") and isinstance(value, int | float) and math.isfinite(value):
                self._writers[seed].add_scalar(name, value, int(row["version"]))

    def close(self) -> None:
        for writer in self._writers.values():
            writer.close()


def read_tracker(text: str) -> Tracker:
    """Make the tracker that `--track` names: `tensorboard:DIR`, or a user's class `my_module:MyTracker`.

    Raises ScenarioError for another text or class, OutputError where TensorBoard is not installed.
    """
    kind, _, place = text.partition(":")
    if kind == "tensorboard" and place:
        return TensorBoard(Path(place))
    try:
        found = own_class(text)
        if isinstance(found, type) and issubclass(found, Tracker):
            return found()
        why = f"{text} must be a class derived from asyncfl.base.tracking.Tracker"
    except ImportError as error:
        why = f"must be tensorboard:DIR or my_module:MyTracker: {str(error).removeprefix('kind ')}"
    except Exception as error:
        why = f"{text} cannot be made: {describe_exception(error)}"
    raise ScenarioError([Fault("--track", why)])


class Trackers:
    """Several trackers of one run. A tracker that raises is closed and dropped; the run continues."""

    def __init__(self, trackers: Sequence[Tracker], warn: Callable[[str], None]) -> None:
        """`warn`: called with a message for each tracker that raises."""
        self._trackers, self._warn = list(trackers), warn
        self._rows: set[tuple[int, int]] = set()

    def begin(self, name: str, scenario: Mapping[str, Any]) -> None:
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
        self._tell(lambda one: one.close())

    def _tell(self, call: Callable[[Tracker], None]) -> None:
        for one in list(self._trackers):
            try:
                call(one)
            except Exception as error:
                self._trackers.remove(one)
                with suppress(Exception):
                    one.close()
                self._warn(f"the tracker {type(one).__name__} failed and is dropped: {describe_exception(error)}")
