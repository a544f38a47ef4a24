"""Columns of a run's tables: type, unit and meaning.

Each class is a table and each field a column. The annotation gives type and unit, and may give what the column tells
about training data (`asyncfl.base.disclosure`); the default of a field is the column's value where it does not apply,
and in runs of an earlier version that lack the column. Tables are written and read, experiment files checked, figures
labelled and `docs/columns.md` generated from these declarations.

The tables of events and of released models are declared where they are recorded (`asyncfl.protocol.events`,
`asyncfl.simulation.release_store`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from asyncfl.base.component import Described
from asyncfl.base.disclosure import Disclosure
from asyncfl.base.field_texts import text_of
from asyncfl.base.lazy_pandas import postpone_pandas

postpone_pandas()

REQUIRED: Any = object()
"""Default of a column without a default."""


class Column(NamedTuple):
    """Declaration of a column. The unit is `s`, `bytes`, or the counted thing; empty: dimensionless."""

    type: pa.DataType
    unit: str
    meaning: str = ""
    default: Any = REQUIRED
    """Value where the column does not apply, or an earlier run lacks it; `REQUIRED`: none is declared."""
    disclosure: Disclosure | None = None
    """Disclosure of training data to an adversary that observes the column; None: nobody but the researcher has it."""

    @property
    def value_type(self) -> pa.DataType:
        """Type of the values, of a dictionary that of its words."""
        return self.type.value_type if pa.types.is_dictionary(self.type) else self.type

    @property
    def missing(self) -> Any:
        """Value of the column in a run that an earlier version wrote without it."""
        if self.default is not REQUIRED:
            return self.default
        return math.nan if pa.types.is_floating(self.type) else False if pa.types.is_boolean(self.type) else None


def about(meaning: str, default: Any = REQUIRED) -> Any:
    """Return a field with the meaning of a column. `default`: see `Column`."""
    return Field(description=meaning) if default is REQUIRED else Field(default, description=meaning)


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
Word = Annotated[str, Column(pa.dictionary(pa.int8(), pa.string()), "")]
Tasks = Annotated[list[int], Column(pa.list_(pa.field("element", pa.int64())), "")]  # named as Parquet names it
Epsilon = Annotated[float, Column(pa.float64(), "")]
Count = Annotated[int, Column(pa.int64(), "")]


class RoundsTable(Described):
    """`rounds.parquet`: one row per seed and published version; version 0 is the initial model. NaN: not measured."""

    seed: Seed = about("Seed of the run.")
    version: Version = about("Number of the version; `round` in tables of an experiment.")
    time_s: Seconds = about("Virtual time at which the version was published.")
    train_loss: Number = about("Mean over the clients of the model's mean loss on the client's own data.")
    test_loss: Number = about("Mean loss on the test set: cross-entropy, of a regression the mean squared error.")
    test_accuracy: Share = about("Share of the test set that is classified correctly; NaN for a regression.")
    participants: Updates = about("Updates that were aggregated into the version.")
    clip_norm: Number = about("Norm that the updates were clipped to.")
    sigma_u: Number = about("Standard deviation of the noise that clients added to each parameter.")
    sigma_d: Number = about("Standard deviation of the noise that the server added to each parameter.")
    staleness_mean: Versions = about("Mean staleness of the aggregated updates.")
    staleness_max: Version = about("Largest staleness of the aggregated updates; -1 without updates.")
    waiting_max: Updates = about(
        "Most updates that waited at once since the previous version, behind the buffer in work."
    )
    bytes_up: Bytes = about("Bytes sent by clients so far, retransmissions included.")
    bytes_down: Bytes = about("Bytes sent by the server so far, retransmissions included.")
    diverged: Truth = about("Whether the model or its loss is not finite.")
    judged: Updates = about("Updates that a detector judged since the previous version.")
    unjudged: Updates = about("Updates that a detector could not judge: scores were missing, or the signal was weak.")
    true_positives: Updates = about("Malicious updates that were flagged.")
    false_positives: Updates = about("Honest updates that were flagged.")
    false_negatives: Updates = about("Malicious updates that were not flagged, whether judged or not.")
    malicious_unjudged: Updates = about("Malicious updates that a detector could not judge.")
    precision: Share = about("Share of flagged updates that were malicious; NaN without flagged updates.")
    recall: Share = about("Share of malicious updates that were flagged; an unjudged one was not. NaN: none came.")
    recall_judged: Share = about("Share of the judged malicious updates that were flagged; NaN: none was judged.")
    unjudged_share: Share = about("Share of updates that a detector could not judge; NaN without updates or detector.")
    honest_bans: Clients = about("Honest clients banned since the previous version.")
    malicious_bans: Clients = about("Attackers banned since the previous version.")
    attack_success: Share = about("Share of triggered test images assigned to the backdoor's class; NaN: none.")


class UploadEpsilonColumns(Described):
    """Further columns of `rounds.parquet` where a scheme gives each upload its own budget."""

    budget_mean: Epsilon = about("Mean epsilon of the updates that were aggregated into the version.")
    budget_min: Epsilon = about("Smallest epsilon of the aggregated updates.")
    budget_max: Epsilon = about("Largest epsilon of the aggregated updates.")
    budget_sum: Epsilon = about("Sum of the epsilons of the aggregated updates.")
    sigma_u_mean: Number = about("Mean standard deviation of the noise that the scheme prescribes to their clients.")


class EpsilonColumns(Described):
    """Further columns of `rounds.parquet` of runs that trained. Infinite for releases without noise."""

    epsilon_naive_max: Epsilon = about("Largest sum of the epsilons claimed for a client's uploads so far.")
    epsilon_basic_max: Epsilon = about("Largest epsilon of a client so far by basic composition.")
    epsilon_rdp_max: Epsilon = about("Largest epsilon of a client so far by Renyi accounting.")
    epsilon_exact_max: Epsilon = about("Largest exact epsilon of a client so far for what was released.")
    epsilon_exact_overheard_max: Epsilon = about("Largest exact epsilon of a client so far for what was overheard.")


class RegressionColumns(Described):
    """Further columns of `rounds.parquet` of a regression, whose losses are mean squared errors and accuracy is NaN.

    Errors are in units of the target as the model sees it: standard deviations where the target was standardised.
    """

    test_r2: Number = about("Explained share of the test targets' variance, at most 1; 0: as good as their mean.")
    test_mae: Number = about("Mean absolute error on the test set.")


class FairnessColumns(Described):
    """Further columns of `rounds.parquet` with `evaluation.clients_every`: the model on each client's own data."""

    client_accuracy_std: Share = about("Standard deviation of the clients' accuracies.")
    client_accuracy_worst_decile: Share = about("Mean accuracy of the tenth of the clients with the lowest one.")
    client_loss_worst_decile: Number = about("Mean loss of the tenth of the clients with the highest one.")


class AggregateColumns(Described):
    """Further columns of `rounds.parquet` with `evaluation.aggregates`: the aggregate of a buffer, before the server's
    noise, compared with the mean of its honest updates, weighted as the server weighs them."""

    aggregate_error: Number = about("Squared L2 distance of the aggregate per weight from the mean honest update.")
    honest_spread: Number = about("Mean squared L2 distance of the honest updates from their mean.")
    attackers_weight: Share = about("Attackers' share of the weight of the buffer before any defence.")


class TasksTable(Described):
    """`tasks.parquet`: one row per seed and task that has begun, from its dispatch to its fate. NaN: did not happen.

    A timeline of fates alone has no times of phases. A run of an earlier version has no such file: its rows follow from
    its events, without the columns about the trained update (`UploadColumns`), which come after these.
    """

    seed: Seed = about("Seed of the run.")
    task: Count = about("Number of the task.")
    client: Count = about("Number of the client.")
    turn: Count = about("Number of tasks that the client was given before; -1: unknown.")
    base_version: Version = about("Version that the client was sent.")
    epochs: Count = about("Epochs that the client had done when a deadline stopped it; null: all of a task.")
    dispatched_s: Seconds = about("Virtual time at which the task began.")
    download_started_s: Seconds = about("Virtual time at which the model was sent.")
    downloaded_s: Seconds = about("Virtual time at which the client had the model.")
    training_started_s: Seconds = about("Virtual time at which the training began.")
    trained_s: Seconds = about("Virtual time at which the training ended.")
    upload_started_s: Seconds = about("Virtual time at which the update was sent.")
    uploaded_s: Seconds = about("Virtual time at which the server had the update.")
    left_s: Seconds = about("Virtual time at which the client was done with the task.")
    outcome: Word = about(
        "How the client was done: `uploaded`, `lost_down`, `lost_up`, `dropped_out`, `no_epoch` by its deadline, "
        "`offline`, `left` the federation; empty: at work when the run ended."
    )
    settled_s: Seconds = about(
        "Virtual time at which the server decided the fate; NaN: unfinished. In real time that is after the event that "
        "told it, whose time stands here where the rows follow from the events of an earlier run."
    )
    fate: Word = about("Fate of the task, see `asyncfl.protocol.messages.Fate`.")
    making: Version = about("Version that the server was making when it decided the fate; -1: unfinished.")
    staleness: Version = about("Staleness of the judged update; -1: not judged.")
    weight: Number = about("Weight of the update in the aggregate; 0: not in it.")
    held: Truth = about("Whether the update arrived before the server had decided its fate.")
    download_bytes: Bytes = about("Size of the model's message; -1: not sent.")
    upload_bytes: Bytes = about("Size of the update's message; -1: not sent.")
    bytes_down: Bytes = about("Bytes sent to the client, also of a message that broke off, with retransmissions.")
    bytes_up: Bytes = about("Bytes sent by the client, also of a message that broke off, with retransmissions.")
    attempts_down: Count = about("Transmissions of the model, 1 without retransmissions; 0: unknown or none.")
    attempts_up: Count = about("Transmissions of the update, 1 without retransmissions; 0: unknown or none.")
    overheard_down_s: Seconds = about("Virtual time since when the eavesdropper holds the model's message.")
    overheard_up_s: Seconds = about("Virtual time since when it holds the update's message.")
    overheard_scoring_s: Seconds = about(
        "Virtual time since when it holds the update from a message that sent it to a client for scoring."
    )
    overheard_down_in_part_s: Seconds = about("As `overheard_down_s`, of a part of the message.")
    overheard_up_in_part_s: Seconds = about("As `overheard_up_s`, of a part of the message.")
    overheard_scoring_in_part_s: Seconds = about("As `overheard_scoring_s`, of a part of the message.")
    end_s: Seconds = about("Virtual time of the last event of the seed.")


class UploadColumns(Described):
    """Further columns of `tasks.parquet`: the trained update and its noise; null where the update was not trained."""

    samples: Count = about("Training samples of the client.")
    upload_epsilon: Epsilon = about("Privacy budget of the upload; null: the same for all.")
    model_weight: Number = about("Factor of the update in the published model; null: it entered none.")
    distribution: Word = about("Distribution of the noise that the scheme asked for.")
    noise_std: Number = about("Standard deviation of that noise on each parameter.")
    sensitivity: Number = about("Sensitivity that the noise was calibrated to; infinite without clipping.")
    draws: Count = about("Draws of noise, such as one an epoch; 0: no noise.")
    release_epsilon: Epsilon = about("Epsilon claimed for the release.")
    sampling_rate: Share = about("Share of the samples in a batch, where the accounting credits it.")
    clip_norm: Number = about("Norm that the update was clipped to; null without clipping.")
    train_loss: Number = about("Mean training loss of the last local epoch; null: not measured.")
    attacked: Truth = about("Whether an attacker made the upload.")
    added_std: Number = about("Standard deviation of the noise added after training; attackers may add none.")
    copy_of: Count = about("Task whose upload an attacker sent again; null: none.")
    computed_from: Tasks = about("Tasks whose uploads an attacker computed this one from.")


class PerClientTable(Described):
    """`per_client.parquet`, with `evaluation.clients_every`: one row per seed, evaluated version and client. The model,
    with the client's personal layers where there are any, on the client's own data."""

    seed: Seed = about("Seed of the run.")
    version: Version = about("Number of the version.")
    time_s: Seconds = about("Virtual time at which the version was published.")
    client: Count = about("Number of the client.")
    loss: Number = about("Mean loss on its data.")
    accuracy: Share = about("Share of its data that is classified rightly; NaN: a regression.")


class ClientsTable(Described):
    """`clients.parquet`: one row per seed and client."""

    seed: Seed = about("Seed of the run.")
    client: Count = about("Number of the client.")
    samples: Count = about("Training samples of the client.")
    attacker: Truth = about("Whether the client attacks; of attackers drawn per round, whether it ever did.")
    banned: Truth = about("Whether the client was banned.")
    tasks: Count = about("Tasks given to the client.")
    uploads: Count = about("Updates of the client that arrived.")
    malicious_uploads: Count = about("Arrived updates that the client sent as an attacker.")
    aggregated: Count = about("Updates of the client that were aggregated.")
    used: Count = about("Aggregated updates with a weight above 0 (Krum uses one of a buffer).")
    malicious_used: Count = about("Updates with a weight above 0 that the client sent as an attacker.")
    flagged: Count = about("Updates of the client that a detector flagged.")
    discarded: Count = about(
        "Tasks of the client that ended stale, late, surplus, timed out, masked for good, or by its ban."
    )
    train_loss: Number = about(
        "Training loss of the client's last task with a known loss; NaN without one, as live with privacy: losses "
        "have no noise, so clients keep them."
    )
    exposures_up: Count = about("Updates of the client that the eavesdropper holds whole.")
    exposures_down: Count = about("Models sent to the client that the eavesdropper holds whole.")


class FurtherClientsColumns(Described):
    """Further columns of `clients.parquet`: of data with several domains, with `privacy.stop_at`, and with
    `world.power`."""

    domain: Name = about("Domain of the client's data.")
    budget_spent_s: Seconds = about("Virtual time at which its budget of `stop_at` was spent; NaN: not spent.")
    energy_compute_j: Energy = about("Energy of training; scoring is not counted.")
    energy_send_j: Energy = about("Energy of sending updates.")
    energy_receive_j: Energy = about("Energy of receiving models.")
    energy_idle_j: Energy = about("Energy of the remaining time.")


class LedgerTable(Described):
    """`ledger.parquet`: one row per seed, adversary, and client or `model`: all that the adversary knows of the holder
    at the end. Rows must not be added up: adversaries share much of what they know."""

    seed: Seed = about("Seed of the run.")
    holder: Name = about(
        "Party whose data the row is about: `client`, or `model` for the client most exposed by published models."
    )
    client: Count = about("Client number, -1 for the model.")
    adversary: Name = about(
        "Adversary that holds the releases: eavesdropper, server, both, curious (a coalition of clients), "
        "public_last (receives the last model), public (all models)."
    )
    trusts: Name = about("Parties that this row trusts to follow the protocol and to keep what they see to themselves.")
    releases: Count = about(
        "Uploads of the client that the adversary holds, and versions that reveal more of it than these; in a "
        "model's row the most of any client. Scores are in all epsilons, but not in this number."
    )
    assumed_releases: Count = about("Releases that the claim covers.")
    distribution: Name = about("Distribution of the noise.")
    sigma: Number = about("Standard deviation of the noise on each parameter of the last release.")
    sensitivity: Number = about(
        "L2 (laplace: L1) sensitivity used for accounting: the one of the calibration, or the true one if that is"
        " invalid; infinite without clipping. With an adaptive clip norm it is that of the update and its bit "
        "together, in units of the update's noise."
    )
    noise_multiplier: Number = about("Noise over sensitivity; the smallest one if releases differ.")
    squared_mu: Number = about("Sum over the Gaussian releases of noise_multiplier^-2.")
    mu: Number = about(
        "Gaussian differential privacy of all releases: the root of squared_mu; null with Laplace noise."
    )
    rho: Number = about("Zero-concentrated differential privacy of all releases.")
    unit: Name = about("Sample or client: the data in which neighbouring data sets differ.")
    neighbours: Name = about(
        "Neighbouring relation: `replace`, the data of the unit are replaced; `zero_out`, a client's updates "
        "count as zero."
    )
    status: Name = about("Proven, heuristic, disproved (by an audit), invalid or none: foundation of the sensitivity.")
    claimed_epsilon: Epsilon = about(
        "Epsilon claimed for the assumed releases; if each upload has its own budget, the largest."
    )
    delta: Number = about("delta of the claim, used for all epsilons below.")
    naive_epsilon: Epsilon = about(
        "Sum of the claims of all releases: basic composition of claims, which spends delta as often."
    )
    basic_epsilon: Epsilon = about("Basic composition of the releases, each with the epsilon of its noise.")
    advanced_epsilon: Epsilon = about("Advanced composition of the same.")
    rdp_epsilon: Epsilon = about("Epsilon by Renyi accounting.")
    exact_epsilon: Epsilon = about(
        "Smallest epsilon for the releases that happened if their sensitivity holds: of Gaussian noise in closed "
        "form; of Laplace noise and Poisson batches by loss distributions, close from above, or the Renyi epsilon"
        " where more than 100 releases have Laplace noise of different size, or more than 20 clients different "
        "batches."
    )
    provable: Epsilon = about(
        "Smallest epsilon that is proven for the releases that happened, without the scheme's assumptions; "
        "infinite if nothing is proven."
    )
    measured: Epsilon = about("Largest lower bound on epsilon from audits; null: this row was not audited.")
    measured_by_twins: Epsilon = about(
        "Lower bound from twins: tasks of this run trained again on neighbouring data, from the same models."
    )
    measured_by_canaries: Epsilon = about(
        "Lower bound from a run with canaries, at 95 % confidence; entered in the row of the client with canaries"
        " that has the largest epsilon."
    )
    claim_holds: Truth = about(
        "True: provable <= claimed_epsilon; false: exact_epsilon (infinite only without noise; of a proven row a "
        "smaller provable) or measured exceeds it; null if nothing is claimed, if no bound is known, or if the "
        "claim is neither proven nor broken.",
        default=None,
    )
    flags: Name = about("Objections to the claim, see `privacy.flags`; several are separated by `; `.")


class SpendingTable(Described):
    """`spending.parquet`: epsilon so far, one row per seed, adversary, holder and version at which it changed. Releases
    after the last version are in rows of that version, with the time at which the run ended."""

    seed: Seed = about("Seed of the run.")
    holder: Name = about(
        "`client`; `largest`, `median`, `mean` over all clients, of each column by itself; or `model`."
    )
    client: Count = about("Client number, -1 for the other holders.")
    adversary: Name = about("Adversary that holds the releases.")
    version: Count = about("Version at or before which it was released.")
    time_s: Seconds = about("Virtual time of that version.")
    releases: Number = about("Releases so far; a median or mean need not be whole.")
    naive_epsilon: Epsilon = about("Sum of what the releases so far were claimed to cost.")
    basic_epsilon: Epsilon = about("Basic composition of the epsilons of their noise.")
    advanced_epsilon: Epsilon = about("Advanced composition of the same.")
    rdp_epsilon: Epsilon = about("Epsilon so far by Renyi accounting.")
    exact_epsilon: Epsilon = about("Smallest epsilon of the releases so far if their sensitivity holds.")


class AuditTable(Described):
    """`audit.parquet`: one row per seed, adversary, audited client, kind of neighbouring data and release.

    Releases are those that the adversary holds, in the order in which it got them. The rows are of the twin (the client
    trained on a neighbouring data set) whose releases lie furthest away over the whole run.
    """

    seed: Seed = about("Seed of the run.")
    holder: Name = about("`client`: the release is an upload; `model`: a published model.")
    client: Count = about("Number of the client that has a twin.")
    adversary: Name = about("Adversary that holds the releases: `eavesdropper`, `server` or `both`.")
    kind: Name = about("Kind of neighbouring data: ordinary, mislabelled, noise, brightest, ascent, exchanged, zeroed.")
    counts: Truth = about("Whether this kind is a neighbour by the relation of the ledger's row.")
    task: Count = about("Task that ended with the upload; -1 for a model.")
    version: Count = about("Version published when the adversary got the release, or next; as in `spending.parquet`.")
    time_s: Seconds = about("Virtual time at which the adversary got the release.")
    twins: Count = about("Twins of this kind that were trained for the release.")
    sample: Count = about("Index of the replaced sample; -1: all samples were replaced.")
    label: Count = about("Class of the replacing sample; -1: all samples were replaced, or the data are a regression.")
    distance: Number = about("Largest |u - u'| of the release, L2 (Laplace noise: L1); lower bound of models.")
    sensitivity: Number = about("Assumed upper bound of the distance; infinite without one.")
    sensitivity_share: Number = about("distance / sensitivity; above 1 the assumed bound is disproved.")
    sigma: Number = about("Standard deviation of the noise on each parameter.")
    twin_sigma: Number = about("Standard deviation of the twin's noise.")
    delta: Number = about("delta of the ledger's row, at which the epsilons are computed.")
    epsilon_once: Epsilon = about("Lower bound of the epsilon of this release alone.")
    epsilon: Epsilon = about("Lower bound of the epsilon of all releases so far. Infinite without noise.")


FAMILIES = {
    "test_accuracy_": Column(
        pa.float64(), "share", "accuracy in a domain; `domains_mean` and `domains_min`: mean and least of all domains"
    ),
    "metric_": Column(pa.float64(), "", "a metric of the user on the test set; NaN: not measured"),
    "detector_": Column(pa.float64(), "", "a number that the detector reported of its buffer; NaN: none"),
}
"""Prefixes of further columns of `rounds.parquet`: domains, the user's metrics, a detector's reports."""


FORMER = {
    "rounds": {"epsilon_claimed_max": "epsilon_naive_max"},
    "spending": {"claimed_epsilon": "naive_epsilon"},
}
"""Table -> column as an earlier version called it -> its name today."""


def columns_of(*tables: type[Described]) -> dict[str, Column]:
    """Return name -> type, unit and meaning of each column of the tables, in order."""
    found = {}
    for table in tables:
        for name, field in table.model_fields.items():
            [column] = (one for one in field.metadata if isinstance(one, Column))
            found[name] = column._replace(
                meaning=text_of(table, name),
                default=REQUIRED if field.is_required() else field.default,
                disclosure=next((one for one in field.metadata if isinstance(one, Disclosure)), None),
            )
    return found


def schema_of(*tables: type[Described]) -> pa.Schema:
    """Return the Arrow schema of the columns of `tables`, in order."""
    return pa.schema([(name, column.type) for name, column in columns_of(*tables).items()])


def array_of(column: pa.Field, values: Any) -> pa.Array:
    """Return `values` as an array of a column's type; texts of a dictionary are numbered as they come."""
    if pa.types.is_dictionary(column.type):
        return pa.array(values, column.type.value_type).dictionary_encode().cast(column.type)
    return pa.array(values, column.type)


def renumbered(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of texts, whose chunks share one dictionary, with these numbered in the order in which they come;
    any other column as it is."""
    if not pa.types.is_dictionary(column.type) or not len(column):
        return column
    codes = [chunk.indices.to_numpy() for chunk in column.chunks]
    texts = column.chunk(0).dictionary
    first, end = np.full(len(texts), len(column)), len(column)
    for chunk in reversed(codes):
        # Of several assignments to one place the last holds: that of the first row.
        first[chunk[::-1]] = np.arange(end - 1, end - len(chunk) - 1, -1)
        end -= len(chunk)
    order = np.argsort(first, kind="stable")[: np.count_nonzero(first < len(column))]
    number = np.zeros(len(texts), dtype=codes[0].dtype)
    number[order] = np.arange(len(order))
    kept = texts.take(order)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(pa.array(number[one]), kept) for one in codes], column.type)


def table_of(values: Mapping[str, Any], *tables: type[Described]) -> pa.Table:
    """Return a table of `values` (column -> array), with the types that `tables` declare. Raises KeyError for a column
    that is not declared."""
    declared = columns_of(*tables)
    return pa.table(dict(values), schema=pa.schema([(name, declared[name].type) for name in values]))
