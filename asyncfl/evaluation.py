"""What is measured in a run, and how often: models that are published, and what uploads give away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from asyncfl.component import Described, kind_of
from asyncfl.errors import Fault
from asyncfl.learning import Training
from asyncfl.metrics import Metric
from asyncfl.privacy import Scheme
from asyncfl.quantities import MeasuredIn

Twin = Literal["ordinary", "mislabelled", "noise", "brightest", "ascent", "exchanged", "zeroed"]
"""How a neighbouring world differs. One sample is another: an ordinary one, one with a wrong label, an image of noise,
the brightest image there is with a wrong label, one found by gradient ascent; or all data of the client are: those of
another client, or none, so that its update is zero."""

OF_SAMPLES: tuple[Twin, ...] = ("ordinary", "mislabelled", "noise", "brightest", "ascent")
"""Kinds of twins in which one sample is another."""
OF_CLIENTS: tuple[Twin, ...] = ("exchanged", "zeroed")
"""Kinds in which all data of the client are others."""


FOLLOWED = 3
"""Twins of each kind that are followed to the end."""


class TwinAudit(Described):
    """Tasks of some clients are trained once more on neighbouring data, and the distances of the uploads measured."""

    clients: Annotated[Annotated[int, Field(ge=1)] | tuple[Annotated[int, Field(ge=0)], ...], MeasuredIn("clients")] = 5
    """How many clients: those honest ones whose updates are collected first; or a list of them."""
    neighbours: Annotated[tuple[Twin, ...], Field(min_length=1)] = (*OF_SAMPLES, *OF_CLIENTS)
    """Kinds of twins that are tried."""
    twins: Annotated[int, Field(ge=1, le=1_000_000), MeasuredIn("twins")] = 200
    """Twins that are tried of each client in its first task. Of each kind the half that lies further away goes on into
    the next one, until three are left, which are followed to the end."""

    @field_validator("clients", "neighbours")
    @classmethod
    def _check_list(cls, value: Any) -> Any:
        if isinstance(value, tuple) and (not value or len(set(value)) < len(value)):
            raise ValueError(f"must name at least one, each once, got {list(value)}")
        return value

    @property
    def count(self) -> int:
        """How many clients."""
        return len(self.clients) if isinstance(self.clients, tuple) else self.clients

    def faults(self, clients: int) -> Iterator[Fault]:
        """Clients that there are not among so many."""
        if isinstance(self.clients, int):
            if self.clients > clients:
                yield Fault("clients", f"must be at most data.clients ({clients}), got {self.clients}")
            return
        for place, client in enumerate(self.clients):
            if client >= clients:
                yield Fault(f"clients.{place}", f"must be 0..{clients - 1} (data.clients is {clients}), got {client}")

    def noise_faults(self, privacy: Scheme | None, training: Training | None) -> Iterator[Fault]:
        """Noise that is drawn in training while the scheme accounts for another: distances are of either. None: it is
        not known."""
        if (
            privacy is not None
            and training is not None
            and training.example_noise
            and not privacy.accounts_for_training
        ):
            yield Fault(
                "training.example_noise",
                "must be 0 where twins are trained (evaluation.audit, asyncfl audit neighbours), "
                f"got {training.example_noise:g}: "
                f"privacy.kind {kind_of(privacy)} does not account for it; set it to 0, or choose dp_sgd, which does",
            )

    def trained(self, tasks: int) -> int:
        """About how many tasks' work it is, where each client has that many."""
        return self.count * (2 * self.twins + FOLLOWED * len(self.neighbours) * tasks)


class KeepEvery(Described):
    """Every so many models are kept."""

    every: Annotated[int, Field(ge=1, examples=[10]), MeasuredIn("versions")]
    """Versions between two that are kept; the last one is, too."""


class Evaluation(Described):
    """How often the published model is judged, and what else is measured of a run."""

    train_every: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 1
    """Versions between two evaluations on all clients' own data; 0: only the last version."""
    test_every: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 1
    """Versions between two evaluations on the test set; 0: only the last version."""
    clients_every: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 0
    """Versions between two evaluations on each client's own data, one by one, which tell how evenly clients are served
    (columns `client_...` of the table of rounds), and are written down client by client (table `per_client`); 0:
    none."""
    aggregates: bool = False
    """Whether it is told how far each aggregate is from the mean of the honest updates of its buffer (columns
    `aggregate_error`, `honest_spread`, `attackers_weight` of the table of rounds, `kappa` and `kappa_bound` of
    experiments); only with `protocol.aggregation: delta`."""
    metrics: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], Metric] = Field(default_factory=dict)
    """Name -> metric of one's own, a function `my_module:my_metric` of a model's outputs and the labels, whenever the
    test set is evaluated; a column `metric_<name>` of the table of rounds."""
    record: Literal["none", "digests", "parameters"] = "none"
    """What is written down of all that the server hears and answers, in `messages.jsonl`: nothing; everything, models
    by their digests; or with the models themselves (5.4 bytes per parameter of each upload, kept in memory until the
    run is written)."""
    keep: Literal["none", "last", "best"] | KeepEvery = "none"
    """Which published models are kept, in `models/<version>.safetensors` of the run: none; the last; of those that are
    tested the one of the highest accuracy, and among equals (or of a regression) the lowest loss; or `{every: N}`, one
    of N. Models that are not finite are not kept."""
    audit: TwinAudit | None = None
    """What is measured of the uploads' privacy, see `asyncfl.twins`; null: nothing."""
