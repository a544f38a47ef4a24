"""Columns of a run's tables: type, unit and meaning.

Each class is a table and each field a column; the annotation gives type and unit, the docstring the meaning. Tables are
written, experiment files checked, figures labelled and `docs/columns.md` generated from these declarations.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, NamedTuple

import pyarrow as pa

from asyncfl.base.component import Described
from asyncfl.base.field_texts import text_of


class Column(NamedTuple):
    """Type, unit and meaning of a column."""

    type: pa.DataType
    unit: str
    """`s`, `bytes`, or the counted thing; empty for dimensionless numbers."""
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
    """Virtual time at which the version was published."""
    train_loss: Number
    """Mean over the clients of the model's mean loss on the client's own data."""
    test_loss: Number
    """Mean loss on the test set: cross-entropy, of a regression the mean squared error."""
    test_accuracy: Share
    """Share of the test set that is classified correctly; NaN for a regression."""
    participants: Updates
    """Updates that were aggregated into the version."""
    clip_norm: Number
    """Norm that the updates were clipped to."""
    sigma_u: Number
    """Standard deviation of the noise that clients added to each parameter."""
    sigma_d: Number
    """Standard deviation of the noise that the server added to each parameter."""
    staleness_mean: Versions
    """Mean staleness of the aggregated updates."""
    staleness_max: Version
    """Largest staleness of the aggregated updates; -1 without updates."""
    bytes_up: Bytes
    """Bytes sent by clients so far, retransmissions included."""
    bytes_down: Bytes
    """Bytes sent by the server so far, retransmissions included."""
    diverged: Truth
    """Whether the model or its loss is not finite."""
    judged: Updates
    """Updates that a detector judged since the previous version."""
    unjudged: Updates
    """Updates that a detector could not judge, because scores were missing or the signal was too weak."""
    true_positives: Updates
    """Malicious updates that were flagged."""
    false_positives: Updates
    """Honest updates that were flagged."""
    false_negatives: Updates
    """Malicious updates that were not flagged."""
    precision: Share
    """Share of flagged updates that were malicious; NaN without flagged updates."""
    recall: Share
    """Share of malicious updates that were flagged; NaN without malicious updates."""
    honest_bans: Clients
    """Honest clients banned since the previous version."""
    malicious_bans: Clients
    """Attackers banned since the previous version."""
    attack_success: Share
    """Share of test images with the trigger that the model assigns to the backdoor's class; NaN without a backdoor."""


class UploadBudgetColumns(Described):
    """Further columns of `rounds.parquet` where a scheme gives each upload its own budget."""

    budget_mean: Epsilon
    """Mean epsilon of the updates that were aggregated into the version."""
    budget_min: Epsilon
    """Smallest epsilon of the aggregated updates."""
    budget_max: Epsilon
    """Largest epsilon of the aggregated updates."""
    budget_sum: Epsilon
    """Sum of the epsilons of the aggregated updates."""
    sigma_u_mean: Number
    """Mean standard deviation of the noise that the scheme prescribes to their clients."""


class EpsilonColumns(Described):
    """Further columns of `rounds.parquet` of runs that trained. Infinite for releases without noise."""

    epsilon_claimed_max: Epsilon
    """Largest claimed epsilon of a client so far, against the server: the sum of the claims of its uploads."""
    epsilon_basic_max: Epsilon
    """Largest epsilon of a client so far by basic composition of the epsilons of its uploads' noise."""
    epsilon_rdp_max: Epsilon
    """Largest epsilon of a client so far by Renyi accounting."""
    epsilon_exact_max: Epsilon
    """Largest exact epsilon of a client so far, for the releases that happened."""
    epsilon_exact_overheard_max: Epsilon
    """Largest exact epsilon of a client so far against the eavesdropper, for the overheard releases."""


class RegressionColumns(Described):
    """Further columns of `rounds.parquet` of a regression, whose losses are mean squared errors and accuracy is NaN.

    Errors are in units of the target as the model sees it: standard deviations where the target was standardised.
    """

    test_r2: Number
    """Explained share of the variance of the test targets, at most 1; 0 is as good as predicting their mean."""
    test_mae: Number
    """Mean absolute error on the test set."""


class FairnessColumns(Described):
    """Further columns of `rounds.parquet` with `evaluation.clients_every`: the model on each client's own data."""

    client_accuracy_std: Share
    """Standard deviation of the clients' accuracies."""
    client_accuracy_worst_decile: Share
    """Mean accuracy over the tenth of the clients, rounded up, with the lowest accuracy."""
    client_loss_worst_decile: Number
    """Mean loss over the tenth of the clients, rounded up, with the highest loss."""


class AggregateColumns(Described):
    """Further columns of `rounds.parquet` with `evaluation.aggregates`: the aggregate of a buffer, before the server's
    noise, compared with the mean of its honest updates, weighted as the server weighs them."""

    aggregate_error: Number
    """Squared L2 distance of the aggregate, per unit of its weight, from the mean of the honest updates."""
    honest_spread: Number
    """Mean squared L2 distance of the honest updates from their mean."""
    attackers_weight: Share
    """Attackers' share of the weight of the buffer before any defence."""


class PerClientTable(Described):
    """`per_client.parquet`, with `evaluation.clients_every`: one row per seed, evaluated version and client. The model,
    with the client's personal layers where there are any, on the client's own data."""

    seed: Seed
    """Seed of the run."""
    version: Version
    """Number of the version."""
    time_s: Seconds
    """Virtual time at which the version was published."""
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
    """Domain of the client's data, where there are several."""
    samples: Count
    """Training samples of the client."""
    attacker: Truth
    """Whether the client attacks; where attackers are drawn per round, whether it was drawn at least once."""
    banned: Truth
    """Whether the client was banned."""
    tasks: Count
    """Tasks given to the client."""
    uploads: Count
    """Updates of the client that arrived."""
    malicious_uploads: Count
    """Arrived updates that the client sent as an attacker."""
    aggregated: Count
    """Updates of the client that were aggregated."""
    used: Count
    """Aggregated updates with a weight above 0 (Krum uses one of a buffer)."""
    malicious_used: Count
    """Updates with a weight above 0 that the client sent as an attacker."""
    flagged: Count
    """Updates of the client that a detector flagged."""
    discarded: Count
    """Updates of the client that were discarded because no client could score them."""
    train_loss: Number
    """Training loss of the client's last task with a known loss; NaN without one."""
    exposures_up: Count
    """Updates of the client that the eavesdropper holds whole."""
    exposures_down: Count
    """Models sent to the client that the eavesdropper holds whole."""
    budget_spent_s: Seconds
    """Virtual time at which the client's privacy budget was spent, with `stop_at`; NaN: not spent."""
    energy_compute_j: Energy
    """Energy of training, where `world.power` gives the power of devices; scoring is not counted."""
    energy_send_j: Energy
    """Energy of sending updates."""
    energy_receive_j: Energy
    """Energy of receiving models."""
    energy_idle_j: Energy
    """Energy of the remaining time."""


class AuditTable(Described):
    """`audit.parquet`: one row per seed, adversary, audited client, kind of neighbouring data and release.

    Releases are those that the adversary holds, in the order in which it got them. The rows are of the twin (the client
    trained on a neighbouring data set) whose releases lie furthest away over the whole run.
    """

    seed: Seed
    """Seed of the run."""
    holder: Name
    """`client`: the release is an upload; `model`: a published model."""
    client: Count
    """Number of the client that has a twin."""
    adversary: Name
    """Adversary that holds the releases: `eavesdropper`, `server` or `both`."""
    kind: Name
    """Kind of neighbouring data: ordinary, mislabelled, noise, brightest, ascent, exchanged, zeroed."""
    counts: Truth
    """Whether this kind is a neighbour by the relation of the ledger's row."""
    task: Count
    """Task that ended with the upload; -1 for a model."""
    version: Count
    """Version published when the adversary got the release, or next; as in `spending.parquet`."""
    time_s: Seconds
    """Virtual time at which the adversary got the release."""
    twins: Count
    """Twins of this kind that were trained for the release."""
    sample: Count
    """Index of the replaced sample; -1: all samples were replaced."""
    label: Count
    """Class of the replacing sample; -1: all samples were replaced, or the data are a regression."""
    distance: Number
    """|u - u'|, L2 (Laplace noise: L1): the largest of a release of several vectors; a lower bound for models."""
    sensitivity: Number
    """Assumed upper bound of the distance; infinite without one."""
    sensitivity_share: Number
    """distance / sensitivity; above 1 the assumed bound is disproved."""
    sigma: Number
    """Standard deviation of the noise on each parameter."""
    twin_sigma: Number
    """Standard deviation of the twin's noise."""
    delta: Number
    """delta of the ledger's row, at which the epsilons are computed."""
    epsilon_once: Epsilon
    """Lower bound of the epsilon of this release alone."""
    epsilon: Epsilon
    """Lower bound of the epsilon of all releases so far. Infinite without noise."""


FAMILIES = {
    "test_accuracy_": Column(
        pa.float64(), "share", "accuracy in a domain; `domains_mean` and `domains_min`: mean and least of all domains"
    ),
    "metric_": Column(pa.float64(), "", "a metric of the user on the test set; NaN: not measured"),
    "detector_": Column(pa.float64(), "", "a number that the detector reported of its buffer; NaN: none"),
}
"""Prefixes of further columns of `rounds.parquet`: domains, the user's metrics, a detector's reports."""


def columns_of(*tables: type[Described]) -> dict[str, Column]:
    """Return name -> type, unit and meaning of each column of the tables, in order."""
    return dict(column for table in tables for column in _declared(table))


def _declared(table: type[Described]) -> Iterator[tuple[str, Column]]:
    """Yield the name and the column of each field of a table."""
    for name, field in table.model_fields.items():
        [column] = (about for about in field.metadata if isinstance(about, Column))
        yield name, column._replace(meaning=text_of(table, name))


def schema_of(*tables: type[Described]) -> pa.Schema:
    """Return the Arrow schema of the columns of `tables`, in order."""
    return pa.schema([(name, column.type) for name, column in columns_of(*tables).items()])
