"""Letters as Flower's messages, and back. Flower is imported when it is needed, and missed with a message.

letter            message
models            an ArrayRecord "arrays" of a letter to train; "model-0", "model-1", ... of one to score
config            a ConfigRecord "config"
reply             the ArrayRecord "arrays" (or the only one), the MetricRecord "metrics" (or the only one), and the
                  ConfigRecord "config", where there are such
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from asyncfl.base.messages import Vector
from asyncfl.live.flower.letters import SCORES, FlowerError, Letter, Reply

if TYPE_CHECKING:
    from flwr.app import ArrayRecord, Message, RecordDict
    from flwr.serverapp import Grid

ARRAYS, METRICS, CONFIG = "arrays", "metrics", "config"


def flower() -> Any:
    """The module `flwr.app`. Raises FlowerError where Flower is missing."""
    try:
        import flwr.app
    except ModuleNotFoundError as error:
        raise FlowerError(
            f"Flower is missing ({error.name}): pip install '.[flower]' -c constraints-flower.txt, in "
            "an environment of its own, since it wants older versions of typer and rich"
        ) from None
    return flwr.app


@dataclass(frozen=True)
class Shapes:
    """How a flat model lies in an ArrayRecord: names, shapes and types of its arrays, in their order."""

    parts: tuple[tuple[str, tuple[int, ...], str], ...]

    @classmethod
    def of(cls, record: ArrayRecord) -> Shapes:
        """Those of a record."""
        return cls(tuple((name, tuple(one.shape), one.dtype) for name, one in record.items()))

    @classmethod
    def flat(cls, n_parameters: int) -> Shapes:
        """One array of all parameters: what our own ClientApp is sent."""
        return cls((("parameters", (n_parameters,), "float32"),))

    @property
    def n_parameters(self) -> int:
        """Length of the flat model."""
        return sum(int(np.prod(shape)) for _, shape, _ in self.parts)

    def record(self, model: Vector) -> ArrayRecord:
        """A flat model as a record. Arrays of whole numbers are rounded."""
        flwr = flower()
        out: ArrayRecord = flwr.ArrayRecord()
        start = 0
        for name, shape, dtype in self.parts:
            size = int(np.prod(shape))
            part = model[start : start + size].reshape(shape)
            kind = np.dtype(dtype)
            part = part.astype(kind) if kind.kind == "f" else np.rint(part).astype(kind)
            out[name] = flwr.Array(np.array(part, order="C"))
            start += size
        return out

    def vector(self, record: ArrayRecord) -> Vector | None:
        """A record as a flat model, whatever its length; None where it holds other arrays."""
        names = [name for name, _, _ in self.parts]
        if not names or sorted(record) != sorted(names):
            return None
        try:
            parts = [np.asarray(record[name].numpy(), dtype=np.float32).reshape(-1) for name in names]
        except (TypeError, ValueError):
            return None
        return np.concatenate(parts)


class GridMail:
    """Carries letters over a grid of Flower."""

    def __init__(self, grid: Grid, shapes: Shapes, timeout_s: float) -> None:
        """`timeout_s`: seconds after which a letter that is not answered is given up."""
        self.grid = grid
        self.shapes = shapes
        self.timeout_s = timeout_s

    def nodes(self) -> Collection[int]:
        """See `Mail`."""
        return set(self.grid.get_node_ids())

    def send(self, letters: Iterable[Letter]) -> list[str | None]:
        """See `Mail`."""
        messages = [message_of(letter, self.shapes, self.timeout_s) for letter in letters]
        names = list(self.grid.push_messages(messages))
        # What is too large is refused with all that is sent at the same time.
        return [str(name) if name else None for name in names] or [None] * len(messages)

    def fetch(self, names: Collection[str]) -> list[Reply]:
        """See `Mail`."""
        return [reply_of(message, self.shapes) for message in self.grid.pull_messages(names)]


def message_of(letter: Letter, shapes: Shapes, timeout_s: float) -> Message:
    """The message that a letter goes out as."""
    flwr = flower()
    content = flwr.RecordDict()
    if letter.models is not None:
        for number, model in enumerate(letter.models):
            content[f"model-{number}" if letter.kind == SCORES else ARRAYS] = shapes.record(model)
    content[CONFIG] = flwr.ConfigRecord(dict(letter.config))
    message: Message = flwr.Message(content, dst_node_id=letter.node, message_type=letter.kind, ttl=timeout_s)
    return message


def models_of(content: RecordDict, shapes: Shapes) -> Vector:
    """(n_models, n_parameters) the models of a letter, as a client reads them. Raises FlowerError."""
    found = [shapes.vector(record) for name, record in sorted(content.array_records.items(), key=_place)]
    if not found or any(one is None or len(one) != shapes.n_parameters for one in found):
        raise FlowerError(f"a letter comes with models of {shapes.n_parameters} parameters, as one array 'parameters'")
    return np.stack([one for one in found if one is not None])


def _place(named: tuple[str, Any]) -> int:
    number = named[0].rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def reply_of(message: Message, shapes: Shapes) -> Reply:
    """What a message of the grid says of the letter that it answers."""
    letter = message.metadata.reply_to_message_id
    if message.has_error():
        return Reply(letter, int(message.error.code), message.error.reason or "")
    content = message.content
    arrays = _chosen(content.array_records, ARRAYS)
    metrics = _chosen(content.metric_records, METRICS)
    config = content.config_records.get(CONFIG, {})
    return Reply(
        letter,
        model=None if arrays is None else shapes.vector(arrays),
        metrics={} if metrics is None else dict(metrics),
        config=dict(config),
    )


def _chosen(records: Mapping[str, Any], name: str) -> Any:
    """The record of that name, or the only one; None: there is none such."""
    if name in records:
        return records[name]
    return next(iter(records.values())) if len(records) == 1 else None


def answer(
    message: Message,
    metrics: Mapping[str, Any],
    config: Mapping[str, Any] | None = None,
    model: Vector | None = None,
) -> Message:
    """A client's reply to a letter. `model`: (length,), as one array."""
    flwr = flower()
    records = {METRICS: flwr.MetricRecord(dict(metrics)), CONFIG: flwr.ConfigRecord(dict(config or {}))}
    content = flwr.RecordDict(records)
    if model is not None:
        content[ARRAYS] = Shapes.flat(len(model)).record(model)
    reply: Message = flwr.Message(content, reply_to=message)
    return reply
