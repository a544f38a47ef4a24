"""Columns of a run's tables, declared once: type, unit and meaning.

What writes the tables, the check of experiment files, the figures and `docs/columns.md` read them here. A class is a
table, a field a column: its annotation says the type and the unit, its docstring the meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import pyarrow as pa

from asyncfl.component import Described
from asyncfl.field_texts import text_of


class Column(NamedTuple):
    """What is known about a column."""

    type: pa.DataType
    unit: str
    """`s`, `bytes`, or what is counted; empty for numbers without a unit."""
    meaning: str = ""


Number = Annotated[float, Column(pa.float64(), "")]
Share = Annotated[float, Column(pa.float64(), "share")]
Seconds = Annotated[float, Column(pa.float64(), "s")]
Energy = Annotated[float, Column(pa.float64(), "J")]
Bytes = Annotated[int, Column(pa.int64(), "bytes")]
Seed = Annotated[int, Column(pa.int64(), "")]
Name = Annotated[str, Column(pa.string(), "")]
Truth = Annotated[bool, Column(pa.bool_(), "")]
Version = Annotated[int, Column(pa.int32(), "versions")]
Versions = Annotated[float, Column(pa.float64(), "versions")]
Updates = Annotated[int, Column(pa.int32(), "updates")]
Clients = Annotated[int, Column(pa.int32(), "clients")]
Epsilon = Annotated[float, Column(pa.float64(), "")]
Count = Annotated[int, Column(pa.int64(), "")]


class RoundsTable(Described):
    """`rounds.parquet`: one row per seed and published version; version 0 is the initial model. NaN: not measured."""

    seed: Seed
    """Seed of the run."""
    version: Version
    """Number of the version; `round` in tables of an experiment."""
    time_s: Seconds
    """Virtual time at which it was published."""
    train_loss: Number
    """Mean over the clients of the model's mean loss on the client's own data."""
    test_loss: Number
    """Mean loss on the test set: cross-entropy, of a regression the mean squared error."""
    test_accuracy: Share
    """Share of the test set that is classified rightly; NaN: a regression."""
    participants: Updates
    """Updates that were aggregated into it."""
    clip_norm: Number
    """Norm that its updates were clipped to."""
    sigma_u: Number
    """Standard deviation of the noise that clients added to each parameter."""
    sigma_d: Number
    """Standard deviation of the noise that the server added to each parameter."""
    staleness_mean: Versions
    """Mean age of its updates."""
    staleness_max: Version
    """Age of the oldest of them, -1 for none."""
    bytes_up: Bytes
    """Sent by clients so far, retransmissions included."""
    bytes_down: Bytes
    """Sent by the server so far, retransmissions included."""
    diverged: Truth
    """Whether the model or its loss is not finite."""
    judged: Updates
    """Updates that a detector judged since the version before."""
    unjudged: Updates
    """Updates of which a detector could say nothing: without scores that it needed, or with too little signal."""
    true_positives: Updates
    """Malicious updates that were accused."""
    false_positives: Updates
    """Honest updates that were accused."""
    false_negatives: Updates
    """Malicious updates that were not accused."""
    precision: Share
    """Share of the accused that were malicious; NaN where nobody was accused."""
    recall: Share
    """Share of the malicious that were accused; NaN where nothing malicious came."""
    honest_bans: Clients
    """Clients banned since the version before that had not attacked."""
    malicious_bans: Clients
    """Clients banned since the version before that had attacked."""
    attack_success: Share
    """Share of triggered test images that the model takes for the backdoor's class; NaN without a backdoor."""


class UploadBudgetColumns(Described):
    """Further columns of `rounds.parquet` where a scheme gives each upload a budget of its own."""

    budget_mean: Epsilon
    """Mean epsilon of the updates that were aggregated into the version."""
    budget_min: Epsilon
    """Least epsilon of them."""
    budget_max: Epsilon
    """Largest epsilon of them."""
    budget_sum: Epsilon
    """Sum of their epsilons."""
    sigma_u_mean: Number
    """Mean of the standard deviations that the scheme asks their clients to add."""


class EpsilonColumns(Described):
    """Further columns of `rounds.parquet` of runs that trained. Infinite where nothing hides what was released."""

    epsilon_claimed_max: Epsilon
    """Largest epsilon of a client so far, for the server: the sum of the claims of its uploads."""
    epsilon_basic_max: Epsilon
    """The same by basic composition of what each upload's noise is worth."""
    epsilon_rdp_max: Epsilon
    """The same by Renyi accounting."""
    epsilon_exact_max: Epsilon
    """The same for the releases that happened, exactly."""
    epsilon_exact_overheard_max: Epsilon
    """The same for an eavesdropper, who holds what was overheard."""


class RegressionColumns(Described):
    """Further columns of `rounds.parquet` of a regression, whose losses are mean squared errors and whose accuracy is
    NaN. Errors are in units of the target as the model sees it: of its deviation, where it was standardised."""

    test_r2: Number
    """Share of the variance of the test set's targets that the model explains, at most 1; 0: as good as their mean."""
    test_mae: Number
    """Mean absolute error on the test set."""


class FairnessColumns(Described):
    """Further columns of `rounds.parquet` where `evaluation.clients_every` asks for them: the model on the clients' own
    data, client by client."""

    client_accuracy_std: Share
    """Standard deviation of the clients' accuracies."""
    client_accuracy_worst_decile: Share
    """Mean accuracy of the tenth of the clients, rounded up, on whose data it is lowest."""
    client_loss_worst_decile: Number
    """Mean loss of the tenth of the clients on whose data it is highest."""


class AggregateColumns(Described):
    """Further columns of `rounds.parquet` where `evaluation.aggregates` asks for them: what was made of a buffer,
    before the server's noise, against the mean of its honest updates, each by the weight that the server gives it."""

    aggregate_error: Number
    """Squared L2 distance of the aggregate, per unit of its weight, from the mean of the honest updates."""
    honest_spread: Number
    """Mean squared L2 distance of the honest updates from it."""
    attackers_weight: Share
    """The attackers' share of the weight of the buffer, as it came."""


class PerClientTable(Described):
    """`per_client.parquet`, where `evaluation.clients_every` asks for it: one row per seed, version that was looked at,
    and client; the model (with the client's own layers, where some are personal) on the client's own data."""

    seed: Seed
    """Seed of the run."""
    version: Version
    """Number of the version."""
    time_s: Seconds
    """Virtual time at which it was published."""
    client: Count
    """Number of the client."""
    loss: Number
    """Mean loss on its data."""
    accuracy: Share
    """Share of its data that is classified rightly; NaN: a regression."""


class ClientsTable(Described):
    """`clients.parquet`: one row per seed and client."""

    seed: Seed
    """Seed of the run."""
    client: Count
    """Number of the client."""
    domain: Name
    """Its domain, where clients are of several."""
    samples: Count
    """Training samples that it has."""
    attacker: Truth
    """Whether it attacks; where attackers are drawn per round, whether it was drawn at least once."""
    banned: Truth
    """Whether it was banned."""
    tasks: Count
    """Tasks given to it."""
    uploads: Count
    """Updates of it that arrived."""
    malicious_uploads: Count
    """Those that it sent as an attacker."""
    aggregated: Count
    """Updates of it that were in an aggregate."""
    used: Count
    """Those that had a weight above 0 (Krum uses one of a buffer)."""
    malicious_used: Count
    """Those of them that it sent as an attacker."""
    flagged: Count
    """Updates of it that a detector flagged."""
    discarded: Count
    """Updates of it that were discarded, as nobody could score them."""
    train_loss: Number
    """Loss of its last trained task of which it is known; NaN: of none."""
    exposures_up: Count
    """Updates of it that the tap holds."""
    exposures_down: Count
    """Models sent to it that the tap holds."""
    budget_spent_s: Seconds
    """Virtual time at which its budget was spent, where clients stop at one; NaN: it is not."""
    energy_compute_j: Energy
    """What its device took to train, where `world.power` says what devices draw; scoring is not counted."""
    energy_send_j: Energy
    """What it took to send its updates."""
    energy_receive_j: Energy
    """What it took to receive models."""
    energy_idle_j: Energy
    """What it took all other time."""


class AuditTable(Described):
    """`audit.parquet`: one row per seed, adversary, audited client, kind of twin and release that the adversary holds,
    in the order in which it got them, of the twin whose releases lie furthest away over the whole run."""

    seed: Seed
    """Seed of the run."""
    holder: Name
    """`client`: the release is an upload; `model`: a published model."""
    client: Count
    """Number of the client that has a twin."""
    adversary: Name
    """Who holds the releases: `eavesdropper`, `server` or `both`."""
    kind: Name
    """How the twin's data differ: ordinary, mislabelled, noise, brightest, ascent, exchanged, zeroed."""
    counts: Truth
    """Whether such twins are among the neighbours that the ledger's row is about."""
    task: Count
    """Task that ended with the upload; -1 for a model."""
    version: Count
    """Version that was published when the adversary had it, or next; as in `spending.parquet`."""
    time_s: Seconds
    """Virtual time at which the adversary had it."""
    twins: Count
    """Twins of this kind that were trained for it."""
    sample: Count
    """Which of the client's samples is another; -1: all are."""
    label: Count
    """Class of what stands in its place; -1: all samples are others, or the data are a regression."""
    distance: Number
    """|u - u'|, L2 (Laplace noise: L1); the largest where a release is several; of a model at least that much."""
    sensitivity: Number
    """What it is assumed to be at most; infinite where nothing is assumed."""
    sensitivity_share: Number
    """distance over sensitivity: above 1 the assumption is disproved."""
    sigma: Number
    """Standard deviation of the noise on each parameter."""
    twin_sigma: Number
    """That of the noise in the twin's world."""
    delta: Number
    """delta that epsilons are for: that of the ledger's row."""
    epsilon_once: Epsilon
    """Epsilon that this release alone has at least."""
    epsilon: Epsilon
    """Epsilon that all of them so far have at least. Infinite without noise."""


FAMILIES = {
    "test_accuracy_": Column(
        pa.float64(), "share", "accuracy in a domain; `domains_mean` and `domains_min`: mean and least of all domains"
    ),
    "metric_": Column(pa.float64(), "", "a metric of one's own on the test set; NaN: not measured"),
    "detector_": Column(pa.float64(), "", "a number that the detector told about its buffer; NaN: it told none"),
}
"""Beginning of further columns of `rounds.parquet`, named after domains, metrics of one's own and a
detector's notes."""


def columns_of(*tables: type[Described]) -> dict[str, Column]:
    """Name -> type, unit and meaning of each column of the tables, in order."""
    return dict(column for table in tables for column in _declared(table))


def _declared(table: type[Described]) -> Iterator[tuple[str, Column]]:
    for name, field in table.model_fields.items():
        [column] = (about for about in field.metadata if isinstance(about, Column))
        yield name, column._replace(meaning=text_of(table, name))


def schema_of(*tables: type[Described]) -> pa.Schema:
    """The Arrow schema of tables declared here, one after another."""
    return pa.schema([(name, column.type) for name, column in columns_of(*tables).items()])
