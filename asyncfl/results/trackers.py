"""Trackers, the instruments of `--track`: TensorBoard, JSON lines, or a class of your own."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from asyncfl.base.errors import Fault, OutputError, ScenarioError
from asyncfl.base.instrument import Instrument, Instruments
from asyncfl.base.own_classes import describe_exception, own_class
from asyncfl.base.plain_json import plain_json


class JsonLines(Instrument):
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


class TensorBoard(Instrument):
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


def read_tracker(text: str) -> Instrument:
    """Make the tracker that `--track` names: `tensorboard:DIR`, or a user's class `my_module:MyTracker`.

    Raises ScenarioError for another text or class, OutputError where TensorBoard is not installed.
    """
    kind, _, place = text.partition(":")
    if kind == "tensorboard" and place:
        return TensorBoard(Path(place))
    try:
        found = own_class(text)
        if isinstance(found, type) and issubclass(found, Instrument):
            return found()
        why = f"{text} must be a class derived from asyncfl.Instrument"
    except ImportError as error:
        why = f"must be tensorboard:DIR or my_module:MyTracker: {str(error).removeprefix('kind ')}"
    except Exception as error:
        why = f"{text} cannot be made: {describe_exception(error)}"
    raise ScenarioError([Fault("--track", why)])


class Trackers(Instruments):
    """Several trackers of one run, each of which gets each row once. A tracker that raises is closed and dropped; the
    run continues."""

    def __init__(self, trackers: Sequence[Instrument], warn: Callable[[str], None]) -> None:
        """`warn`: called with a message for each tracker that raises."""
        super().__init__(trackers)
        self._warn = warn
        self._rows: set[tuple[int, int]] = set()

    def row(self, row: Mapping[str, Any]) -> None:
        key = int(row["seed"]), int(row["version"])
        if key not in self._rows:
            self._rows.add(key)
            self._call(lambda one: one.row(dict(row)))

    def _call(self, call: Callable[[Instrument], object]) -> None:
        for one in list(self._instruments):
            try:
                call(one)
            except Exception as error:
                self._instruments.remove(one)
                with suppress(Exception):
                    one.close()
                self._warn(f"the tracker {type(one).__name__} failed and is dropped: {describe_exception(error)}")
