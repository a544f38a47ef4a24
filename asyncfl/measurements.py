"""Measurements of a run: evaluation of published models, kept models, recordings, and privacy audits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, field_validator

from asyncfl.base.component import Described, kind_of
from asyncfl.base.defaults import DefaultSince
from asyncfl.base.errors import Fault
from asyncfl.base.instrument import Instrument
from asyncfl.base.own_classes import own_class
from asyncfl.base.quantities import MeasuredIn
from asyncfl.learning import Training
from asyncfl.learning.metrics import Metric
from asyncfl.privacy import Scheme

if TYPE_CHECKING:
    from asyncfl.protocol.settings import Protocol

Twin = Literal["ordinary", "mislabelled", "noise", "brightest", "ascent", "exchanged", "zeroed"]
"""Kinds of neighbouring data sets. `ordinary`, `mislabelled`, `noise`, `brightest` and `ascent` replace one sample: by
another sample, one with a wrong label, an image of noise, the brightest image with a wrong label, or one found by
gradient ascent. `exchanged` replaces all data of the client by another client's; `zeroed` sets its update to zero."""

OF_SAMPLES: tuple[Twin, ...] = ("ordinary", "mislabelled", "noise", "brightest", "ascent")
"""Kinds that replace one sample."""
OF_CLIENTS: tuple[Twin, ...] = ("exchanged", "zeroed")
"""Kinds that replace all data of the client."""


FOLLOWED = 3
"""Neighbouring data sets of each kind that are followed to the end of the run."""


class TwinAudit(Described):
    """Audit of some clients' uploads: their tasks are trained again on neighbouring data sets, and distances measured.

    A client that trains on a neighbouring data set, from the same models and random streams, is called a twin.
    """

    clients: Annotated[Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=0)], ...], MeasuredIn("clients")] = 5
    """Number of audited clients, the honest ones whose updates are collected first; or a list of clients."""
    neighbours: Annotated[tuple[Twin, ...], Field(min_length=1)] = (*OF_SAMPLES, *OF_CLIENTS)
    """Kinds of neighbouring data sets that are tried."""
    twins: Annotated[int, Field(ge=1, le=1_000_000), MeasuredIn("twins")] = 200
    """Neighbouring data sets that are tried for each client in its first task. After each task the half of each kind
    whose uploads lie further away is kept, until three are left, which are followed to the end."""

    @field_validator("clients", "neighbours")
    @classmethod
    def _check_list(cls, value: Any) -> Any:
        if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
            raise ValueError(f"must name at least one, each once, got {list(value)}")
        return value

    instrument_path: ClassVar[str] = "asyncfl.extras.audit.neighbours:TwinsObserver"
    """The instrument that audits, named as users name classes of their own: the core imports no extra."""

    def instrument(self, progress: Instrument) -> Instrument:
        """Return the instrument that audits a seed. `progress`: receives the number of twins trained so far."""
        made: Any = own_class(self.instrument_path)
        return made(self, progress)  # type: ignore[no-any-return]

    @property
    def count(self) -> int:
        """Number of audited clients."""
        return len(self.clients) if isinstance(self.clients, tuple) else self.clients

    def faults(self, clients: int) -> Iterator[Fault]:
        """Yield a fault for more clients than the federation has, or for each listed client that it lacks."""
        if isinstance(self.clients, int):
            if self.clients > clients:
                yield Fault("clients", f"must be at most data.clients ({clients}), got {self.clients}")
            return
        for place, client in enumerate(self.clients):
            if client >= clients:
                yield Fault(f"clients.{place}", f"must be 0..{clients - 1} (data.clients is {clients}), got {client}")

    def training_faults(
        self,
        privacy: Scheme | None,
        training: Training | None,
        personal: Sequence[str] = (),
        protocol: Protocol | None = None,
    ) -> Iterator[Fault]:
        """Yield a fault if the privacy scheme does not account for noise in training, since distances would mix both
        noises, one for `personal` layers and kept states of the optimiser, which each twin would have to carry from
        task to task, and one for Poisson batches and cohorts, which twins repeat and so reveal."""
        if protocol is not None and protocol.selection.independent:
            message = "must draw a fixed number where twins are trained (evaluation.audit, asyncfl audit neighbours)"
            way_out = "twins repeat the draws, whose secrecy the credit needs; asyncfl audit canaries --unit client"
            yield Fault("protocol.selection", f"{message}, got {kind_of(protocol.selection)}: {way_out}")
        twins = "where twins are trained (evaluation.audit, asyncfl audit neighbours)"
        if personal:
            message = f"must be empty {twins}, got {list(personal)}; asyncfl audit canaries works with personal layers"
            yield Fault("model.personal", message)
        if training is not None and training.state == "kept":
            message = f"must be fresh {twins}, got kept: each twin would have to keep a state of its own"
            yield Fault("training.state", message)
        if training is not None and training.batches == "poisson":
            message = f"must be shuffled {twins}, got poisson: twins repeat the batches, whose secrecy the credit needs"
            yield Fault("training.batches", message)
        noisy = training is not None and training.example_noise
        if privacy is not None and noisy and not privacy.accounts_for_training:
            yield Fault(
                "training.example_noise",
                f"must be 0 {twins}, got {noisy:g}: privacy.kind {kind_of(privacy)} does not account for it; set it to "
                "0, or choose dp_sgd, which does",
            )

    def trained(self, tasks: int) -> int:
        """Estimate the number of trainings that the audit costs, if each client has `tasks` tasks."""
        return self.count * (2 * self.twins + FOLLOWED * len(self.neighbours) * tasks)


class KeepEvery(Described):
    """Choice to keep one model of every few versions."""

    every: Annotated[int, Field(ge=1, examples=[10]), MeasuredIn("versions")]
    """Versions between two kept models; the last version is kept too."""


class Minutes(Described):
    """Time between two checkpoints."""

    minutes: Annotated[float, Field(gt=0, allow_inf_nan=False, examples=[5.0]), MeasuredIn("minutes")]
    """Minutes of real time between two checkpoints; more if writing one takes longer than seconds."""


SHARE = 0.1
"""Largest cost of the evaluations whose interval is `auto`, as a share of the cost of training."""
LEAST = 10
"""Intervals between evaluations that `auto` divides a run into at least."""
PASSES = 3
"""Cost of training on a sample in evaluations of it: a forward pass, and a backward pass of twice its operations."""

Every = Annotated[int, Field(ge=0), MeasuredIn("versions")] | Literal["auto"]


class Schedule(NamedTuple):
    """Versions between two evaluations of each kind; 0: only the last version, and of `clients_every` none."""

    train_every: int
    test_every: int
    clients_every: int
    last: int
    """Last version of the run."""

    def is_due(self, every: int, version: int) -> bool:
        """Whether a measurement of each `every`th version is made of this one."""
        return version == self.last or (every > 0 and version % every == 0)


def affordable_interval(evaluated: int, trained: int, versions: int) -> int:
    """Return the versions between two evaluations that cost at most `SHARE` of the training, or fewer where a run of
    `versions` versions would have fewer than `LEAST` intervals.

    `evaluated`: samples of an evaluation. `trained`: samples times epochs of the updates of a version.

        min(ceil(evaluated / (SHARE * PASSES * trained)), max(1, versions // LEAST))

    >>> affordable_interval(evaluated=3000, trained=500, versions=400)  # 3000 / (0.1 * 3 * 500) = 20
    20
    """
    # In whole numbers, so that the quotient is exact.
    return max(1, min(-(-evaluated * round(1 / SHARE) // (PASSES * trained)), versions // LEAST))


class Evaluation(Described):
    """Evaluation of published models, and further measurements and files of a run.

    `auto` stands for a number of versions that follows from the scenario and is written into `scenario.yaml` of the
    run. All intervals that are `auto` have the same: the smallest at which their evaluations cost at most a tenth of
    the training, but at most a tenth of the versions. With `test_samples` and all samples of the clients, as far as
    they are evaluated by `auto`:

        min(ceil(evaluated samples / (0.1 * 3 * trained samples)), max(1, rounds // 10))

    where trained samples are those of a version, updates times samples_per_client times epochs, and training on a
    sample costs three evaluations of it. `auto` is 1 where a run may end before its last version
    (`protocol.time_limit_s`, `privacy.stop_at`).
    """

    train_every: Annotated[Every, DefaultSince(2, first=1)] = "auto"
    """Versions between two evaluations on all clients' own data; 0: only the last version; `auto`: from the costs."""
    test_every: Annotated[Every, DefaultSince(2, first=1)] = "auto"
    """Versions between two evaluations on the test set; 0: only the last version; `auto`: from the costs. Must be a
    number where evaluation takes simulated time (`world.evaluate_s`)."""
    clients_every: Every = 0
    """Versions between two evaluations on each client's own data. They show how evenly the model serves the clients
    (columns `client_...` of `rounds`) and are stored client by client (table `per_client`); 0: none; `auto`: from the
    costs."""
    aggregates: bool = False
    """Whether to measure the distance of each aggregate from the mean of the honest updates of its buffer (columns
    `aggregate_error`, `honest_spread`, `attackers_weight` of `rounds`; `kappa` and `kappa_bound` of experiments); only
    with `protocol.aggregation: delta`."""
    metrics: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Metric] = Field(default_factory=dict)
    """Metrics of your own, name -> function `my_module:my_metric` of a model's outputs and the labels. Each is
    evaluated with the test set and becomes a column `metric_<name>` of `rounds`."""
    record: Literal["none", "digests", "parameters"] = "none"
    """Recording of the server's messages in `messages.jsonl`: `none`; `digests`, all messages with digests of models;
    or `parameters`, with the models themselves (5.4 bytes per parameter of each upload, in memory until the run is
    written)."""
    keep: Literal["none", "last", "best"] | KeepEvery = "none"
    """Published models kept in `models/<version>.safetensors`: `none`; `last`; `best`, the tested model of highest
    accuracy, and of lowest loss among equals or for a regression; or `{every: N}`, one of N versions. Models that are
    not finite are not kept."""
    checkpoint: Annotated[int, Field(ge=1), MeasuredIn("versions")] | Minutes | None = Minutes(minutes=5.0)
    """Versions, or `{minutes: M}`, between two checkpoints, from which an interrupted run goes on to the same results;
    null: none. They hold the models of open tasks and the records so far, and are removed at the end. Results and their
    digest do not depend on it."""
    audit: TwinAudit | None = None
    """Audit of the uploads' privacy by neighbouring data sets, see `asyncfl.extras.audit.neighbours`; null: none."""

    @property
    def intervals(self) -> dict[str, int | Literal["auto"]]:
        """Field -> versions between two evaluations."""
        return {"train_every": self.train_every, "test_every": self.test_every, "clients_every": self.clients_every}
