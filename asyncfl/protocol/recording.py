"""A server's messages and actions as JSON lines, from which another server can reproduce its decisions.

The first line of a recording describes the federation. Each further line is one call of the server and its answer:

    {"answers":[{"tasks":[0,3],"type":"Collect"}],"hears":{"task":3,"time_s":1.5,"type":"UpdateArrived"}}

Models are written as digests (one per row), or as digests and values (`parameters`: base64 of little-endian float32).
Losses, scores, and which rows were sound and finite are always written. Equal runs give equal bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa
from msgspec import ValidationError, convert, to_builtins
from numpy.typing import NDArray

from asyncfl.base.arrays import Vector
from asyncfl.base.component import kind_of
from asyncfl.base.errors import AsyncflError, MessageError, RunError
from asyncfl.base.files.batch_spool import BatchSpool
from asyncfl.base.files.reading import check_ordinary
from asyncfl.protocol.aggregation import usable
from asyncfl.protocol.machine import Server, ServerPhase, ServerPlan
from asyncfl.protocol.messages import Action, Collected, Input, Publish

Detail: TypeAlias = Literal["digests", "parameters"]
"""Content of a recorded model: its digest, or all its parameters."""

FORMAT = 5
"""Version of the format."""

FORMER = {
    "BudgetSpent": "ClientRetired",
    "Judged": "BufferVerdict",
    "RequestScores": "ScoreRequest",
}
"""Name of a message in recordings of format 4 -> its name today. Nothing else has changed since."""

PUT_AWAY_AT = 1 << 20
"""Characters of a recording kept in memory before they are moved to disk."""

Plain: TypeAlias = dict[str, Any]
"""A JSON object."""


@dataclass(frozen=True)
class RecordedCall:
    """One line of a recording."""

    line: int
    """Line number in the recording, from 2 on."""
    message: Plain
    """A message, `{"type": "start", "time_s": ...}` or `{"type": "stop", "reason": ...}`."""
    actions: list[Plain]
    """Actions in their order."""


@dataclass(eq=False)
class Recording:
    """The calls of one server, in their order."""

    detail: Detail
    samples: tuple[int, ...]
    """(clients,) training samples of each client."""
    n_parameters: int
    seed: int = 0
    all_present: bool = True
    """Whether all clients took part from the start; otherwise each took part after it had joined."""
    per_client: int | None = None
    """Most updates of one client in a buffer; None for no limit."""
    lines: list[str] = field(default_factory=list)
    """JSON of the latest calls, in memory."""
    earlier: BatchSpool = field(default_factory=BatchSpool, repr=False)
    """JSON of the earlier calls, on disk."""
    _characters: int = field(default=0, init=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return self.text() == other.text() if isinstance(other, Recording) else NotImplemented

    @classmethod
    def of(cls, plan: ServerPlan, detail: Detail = "digests", seed: int = 0) -> Recording:
        """Return an empty recording for a server with this plan."""
        sizes, share = tuple(int(number) for number in plan.samples), plan.protocol.per_client
        return cls(detail, sizes, len(plan.initial), seed, plan.all_present, share)

    def text(self) -> str:
        """Return the whole recording as JSON lines."""
        head: Plain = {
            "everybody_present": self.all_present,
            "format": FORMAT,
            "n_parameters": self.n_parameters,
            "record": self.detail,
            "samples": self.samples,
            "seed": self.seed,
        }
        if self.per_client is not None:
            head["per_client"] = self.per_client
        return "".join(f"{line}\n" for line in [_json(head), *self._all_lines()])

    def add(self, hears: Plain, answers: Iterable[Action]) -> None:
        """Append one call: the message `hears` as a JSON object, and the actions `answers` that followed."""
        self._keep(_json({"answers": [plain(action, self.detail) for action in answers], "hears": hears}))

    def _keep(self, line: str) -> None:
        """Append the line of a call."""
        self.lines.append(line)
        self._characters += len(line)
        if self._characters >= PUT_AWAY_AT:
            self.earlier.put(pa.RecordBatch.from_pydict({"line": self.lines}))
            self.lines, self._characters = [], 0

    def _all_lines(self) -> Iterator[str]:
        for batch in self.earlier.batches():
            yield from batch["line"].to_pylist()
        yield from self.lines

    def calls(self) -> Iterator[RecordedCall]:
        """Yield the calls in their order. Raises RunError for a damaged line."""
        for number, line in enumerate(self._all_lines(), 2):
            try:
                entry = json.loads(line)
                yield RecordedCall(number, entry["hears"], entry["answers"])
            except (ValueError, KeyError, TypeError, RecursionError):
                raise RunError(f"line {number} of the recording is damaged: {line[:60]}") from None

    @classmethod
    def read(cls, path: str | Path, seed: int | None = None) -> Recording:
        """Read the recording of `seed` from a file, which may hold those of several seeds. None: the first. Raises:
        RunError if there is none, or if the file is damaged."""
        found: list[Recording] = []
        try:
            check_ordinary(path)
            with Path(path).open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if '"format":' in line and '"hears":' not in line:
                        found.append(_headed(line, f"{path} line {number}"))
                    elif not found:
                        raise RunError(f"{path} is no recording: its first line describes no federation")
                    elif seed is None or found[-1].seed == seed:
                        found[-1]._keep(_of_today(line.rstrip("\n")))
        except OSError as error:
            raise RunError(f"{path} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise RunError(f"{path} is no recording: it is not a text file") from None
        wanted = [recording for recording in found if seed is None or recording.seed == seed]
        if not wanted:
            there = ", ".join(str(recording.seed) for recording in found)
            raise RunError(f"{path} holds no recording of seed {seed}; it holds seeds {there or 'none'}")
        return wanted[0]


class RecordedServer(Server):
    """A server that records its messages and actions."""

    def __init__(self, plan: ServerPlan, recording: Recording) -> None:
        super().__init__(plan)
        self.recording = recording

    def start(self, time_s: float = 0.0) -> list[Action]:
        actions = super().start(time_s)
        self.recording.add({"type": "start", "time_s": float(time_s)}, actions)
        return actions

    def handle(self, message: Input) -> list[Action]:
        # Convert the message before it is handled: a faulty component might change the borrowed models.
        hears = plain(message, self.recording.detail)
        actions = super().handle(message)
        self.recording.add(hears, actions)
        return actions

    def stop(self, reason: str) -> list[Action]:
        actions = super().stop(reason)
        self.recording.add({"type": "stop", "reason": reason}, actions)
        return actions


# --- messages as JSON, and back ------------------------------------------------------------------------------------


def plain(message: Input | Action, detail: Detail) -> Plain:
    """Convert a message or action to a JSON object: its type and its fields. `detail`: how models are written.
    `Collected` tells which rows are `finite` (`usable`) beside which are `sound`, since the server distinguishes the
    two."""
    # The models to score follow from the collected ones: their digests are enough.
    values = detail == "parameters" and isinstance(message, Collected | Publish)
    out: Plain = to_builtins(message, enc_hook=partial(_plain_array, values=values))
    for name, value in out.items():
        out[name] = _plain_number(value)
    if isinstance(message, Collected):
        out["sound"] = [True] * len(message.tasks) if message.sound is None else message.sound.tolist()
        out["finite"] = usable(message.models).tolist()
        if not message.payloads:
            del out["payloads"]
    elif isinstance(message, Publish):
        del out["waiting_max"]  # older recordings lack it; it decides nothing
        if message.sent is None:
            del out["sent"]
        if not message.payloads:
            del out["payloads"]  # likewise
    return out


def message_of(hears: Plain, models: Vector | None) -> Input:
    """Convert the JSON object `hears` to a message, with `models` in place of the collected models. Raises: RunError if
    it is no message."""
    name = str(hears.get("type"))
    if name not in _INPUTS or (name == Collected.__name__ and models is None):
        raise RunError(f"{name} is no message to a server")
    values = {field: value for field, value in hears.items() if field != "finite"}
    if values.get("payloads"):
        names = ", ".join(values["payloads"])
        raise RunError(f"a replay cannot provide the algorithm's payloads ({names}): the recording holds digests")
    if "models" in values:
        values["models"] = models
    try:
        return convert(values, _INPUTS[name], dec_hook=_array, strict=False)  # infinities and NaN are texts in JSON
    except (ValidationError, TypeError, ValueError) as error:
        raise RunError(f"a recorded message is damaged: {error}") from None


_INPUTS: dict[str, type[Input]] = {one.__name__: one for one in get_args(Input)}


def digest_of(model: Vector) -> str:
    """Return 16 hexadecimal digits that change with any change of the model."""
    return hashlib.sha256(np.ascontiguousarray(model, dtype="<f4").tobytes()).hexdigest()[:16]


def parameters_of(models: Plain) -> Vector | None:
    """Return the recorded model or matrix of models, read-only; None if only digests were recorded."""
    if "float32" not in models:
        return None
    flat = np.frombuffer(base64.b64decode(models["float32"]), dtype="<f4").astype(np.float32, copy=False)
    array: Vector = flat.reshape(models["shape"])
    array.flags.writeable = False
    return array


def _plain_array(array: NDArray[Any] | np.generic, values: bool) -> Any:
    """Return an array or number of a message as JSON holds it.

    Arrays of float32 are models: of these digests are kept, with `values` also the parameters.
    """
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        return _plain_number(array.tolist())
    rows = array if array.ndim == 2 else array[None]
    out: Plain = {"digests": [digest_of(row) for row in rows], "shape": list(array.shape)}
    if values:
        out["float32"] = base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode("ascii")
    return out


def _plain_number(value: Any) -> Any:
    # JSON has no infinity and no NaN; `float` reads these texts.
    if isinstance(value, list | tuple):
        return [_plain_number(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _array(kind: Any, value: Any) -> Any:
    """Return an array of a message of type `kind`; `value`: the models that were provided, or a list of JSON."""
    [dtype] = get_args(get_args(kind)[1])
    return value if isinstance(value, np.ndarray) else np.array(value, dtype=dtype)


def _json(value: Plain) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _of_today(line: str) -> str:
    """Return the line of a call with the names that messages have today."""
    for former, name in FORMER.items():
        line = line.replace(f'"type":"{former}"', f'"type":"{name}"')
    return line


def _headed(line: str, where: str) -> Recording:
    try:
        head = json.loads(line)
        if head["format"] not in (4, FORMAT):
            raise RunError(f"{where}: recordings of format {FORMAT} can be read, this is format {head['format']}")
        if head["record"] not in ("digests", "parameters"):
            raise ValueError
        sizes, present = tuple(head["samples"]), bool(head["everybody_present"])
        share = head.get("per_client")
        return Recording(head["record"], sizes, int(head["n_parameters"]), int(head["seed"]), present, share)
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{where} is damaged: {line[:60].rstrip()}") from None


CollectAgain: TypeAlias = Callable[[tuple[int, ...]], Vector]
"""Function (tasks) -> (n_updates, n_parameters) their models as uploaded, in that order."""


class ReplayError(AsyncflError):
    """Raised if a server does not act as recorded."""


@dataclass(frozen=True)
class Replayed:
    """Result of a replay without differences."""

    calls: int
    """Number of calls that the server answered as recorded."""
    actions: int
    """Number of actions in these answers."""
    unchecked: tuple[str, ...]
    """Facts that could not be compared; empty if the replay is exact."""


def replay(recording: Recording, server: Server, collect: CollectAgain | None = None) -> Replayed:
    """Pass the messages of `recording` to the new `server` and check that it answers each as recorded.

    `collect` provides the models of a recording that holds only digests.

    Raises: ReplayError at the first answer that differs, at models whose digests differ, and for a server of another
    federation; RunError if the recording is damaged, or holds too little for this server; ValueError for a server that
    has been used.
    """
    if server.tasks.begun or server.phase is not ServerPhase.FILLING:
        raise ValueError("a replay needs a fresh server, this one has begun tasks")
    _same_federation(recording, server)
    values = recording.detail == "parameters" or collect is not None
    detector = server.plan.defence.detector
    if not values and detector is not None:
        raise RunError(
            f"the recording holds digests, but detector {kind_of(detector)!r} judges parameters; have "
            "the tasks trained again (--train, train=True), or record the run with evaluation.record: parameters"
        )
    chooses = not server.plan.defence.is_linear
    count = actions = 0
    for call in recording.calls():
        answers = _feed(call, recording, server, collect)
        again = [plain(action, recording.detail) for action in answers]
        expected = call.actions
        if not values:
            again, expected = [[_decision(one, chooses) for one in side] for side in (again, expected)]
        _compare(call, expected, again)
        count, actions = count + 1, actions + len(again)
    if values:
        return Replayed(count, actions, ())
    return Replayed(count, actions, ("models of versions above 0", *(["weights of updates"] if chooses else [])))


def _feed(call: RecordedCall, recording: Recording, server: Server, collect: CollectAgain | None) -> list[Action]:
    message = call.message
    if message["type"] == "start":
        return server.start(float(message["time_s"]))
    if message["type"] == "stop":
        return server.stop(message["reason"])
    models = None
    if message["type"] == "Collected":
        models = parameters_of(message["models"])
        if models is None and collect is not None:
            models = _checked(call, np.asarray(collect(tuple(message["tasks"])), dtype=np.float32))
        elif models is None:
            models = np.tile(np.asarray(server.plan.initial, dtype=np.float32), (len(message["tasks"]), 1))
            models[~np.array(message["finite"], dtype=bool)] = np.nan
    try:
        return server.handle(message_of(message, models))
    except MessageError as error:
        raise ReplayError(f"{_place(call)}: the server refuses it: {error}") from error


def _checked(call: RecordedCall, models: Vector) -> Vector:
    recorded, tasks = call.message["models"]["digests"], call.message["tasks"]
    usable = [sound and finite for sound, finite in zip(call.message["sound"], call.message["finite"], strict=True)]
    if len(models) != len(tasks):
        raise ReplayError(f"{_place(call)}: {len(tasks)} models were collected, {len(models)} are provided")
    other = [
        task
        for task, model, was, counts in zip(tasks, models, recorded, usable, strict=True)
        if counts and digest_of(model) != was
    ]
    if other:
        raise ReplayError(f"{_place(call)}: other models were collected for tasks {other}")
    return models


def _same_federation(recording: Recording, server: Server) -> None:
    plan = server.plan
    for what, was, now in (
        ("clients", len(recording.samples), server.clients),
        ("parameters", recording.n_parameters, len(plan.initial)),
        ("samples of its clients", recording.samples, tuple(int(number) for number in plan.samples)),
    ):
        if was != now:
            raise ReplayError(f"the recording is of another federation: its {what}: {was}, the server's: {now}")


def _decision(action: Plain, chooses: bool) -> Plain:
    """Return an action without the fields that depend on the values of models. `chooses`: whether weights do."""
    left_out = set()
    if action["type"] == "Publish" and action["version"] > 0:
        left_out |= {"model", "sent"}
    if action["type"] == "Settle" and chooses:
        left_out.add("weight")
    return {name: value for name, value in action.items() if name not in left_out}


def _compare(call: RecordedCall, expected: list[Plain], again: list[Plain]) -> None:
    for number, (was, now) in enumerate(zip(expected, again, strict=False), 1):
        if was != now:
            raise ReplayError(f"{_place(call)}: answer {number} was {_shown(was)}, now it is {_shown(now)}")
    if len(expected) != len(again):
        longer, source = (expected, "recorded") if len(expected) > len(again) else (again, "now")
        extra = _shown(longer[min(len(expected), len(again))])
        raise ReplayError(
            f"{_place(call)}: {len(expected)} answers were recorded, now there are {len(again)}; only {source}: {extra}"
        )


def _place(call: RecordedCall) -> str:
    long = ("models", "losses", "sound", "finite", "upload_std", "scores")
    return f"line {call.line}, {_shown({name: value for name, value in call.message.items() if name not in long})}"


def _shown(entry: Plain) -> str:
    fields = ", ".join(f"{name}={_brief(value)}" for name, value in entry.items() if name != "type")
    return f"{entry['type']}({fields})"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("digests", value)
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
