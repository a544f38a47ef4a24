"""Columns of an experiment's tables, which figures, tables, targets and claims may name, each with its unit.

`asyncfl.base.tables` declares the columns of a run; this module adds those of the analysis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated

import pyarrow as pa

from asyncfl.base.component import Described
from asyncfl.base.tables import (
    FAMILIES,
    AggregateColumns,
    Clients,
    Column,
    Epsilon,
    EpsilonColumns,
    FairnessColumns,
    Number,
    RegressionColumns,
    RoundsTable,
    Seconds,
    Share,
    UploadEpsilonColumns,
    Versions,
    columns_of,
)
from asyncfl.defences.quality import COUNTS, SHARES

Transfers = Annotated[float, Column(pa.float64(), "transfers")]

TARGETS = {"time_to_": "s", "rounds_to_": "versions", "bytes_to_": "bytes"}
"""Prefix of a column with the cost of reaching a target -> its unit."""
SIGNED = {"test_r2": 1.0, "ssim_": 1.0, "psnr_": math.inf, "metric_": math.inf, "detector_": math.inf}
"""Prefix of columns whose values may be negative -> the largest value."""


class AddedRoundColumns(Described):
    """`rounds.csv` of an experiment: columns that are added to those of `rounds.parquet`."""

    honest_banned: Clients
    """Clients banned so far that had not attacked."""
    malicious_banned: Clients
    """Clients banned so far that had attacked."""
    epsilon_exact_median: Epsilon
    """Median epsilon of the clients so far, exactly, for the server."""
    epsilon_naive_model: Epsilon
    """Epsilon of the published models so far: the sum of their claims."""
    epsilon_basic_model: Epsilon
    """The same by basic composition of what each model's noise is worth."""
    epsilon_advanced_model: Epsilon
    """The same by advanced composition."""
    epsilon_rdp_model: Epsilon
    """The same by Renyi accounting."""
    epsilon_exact_model: Epsilon
    """The same for the releases that happened, exactly."""
    epsilon_measured_max: Epsilon
    """Largest epsilon so far that twins have shown of an audited client, from below, for the server."""
    epsilon_measured_overheard_max: Epsilon
    """The same for an eavesdropper."""
    epsilon_measured_model: Epsilon
    """Epsilon of the published models so far that twins have shown, from below."""
    epsilon_measured_upload: Epsilon
    """Largest epsilon of one upload so far that twins have shown of an audited client, from below."""
    sensitivity_share_max: Number
    """Largest distance of a twin's upload so far, as a part of the assumed sensitivity; above 1: disproved."""
    epsilon_exact_sum: Epsilon
    """Largest epsilon of a client and that of the models, exact ones added up."""


class WholeRunColumns(Described):
    """`ends.csv` of an experiment: one row per run. These columns are counted over the whole run."""

    versions: Versions
    """Versions published after the initial model."""
    round_s_mean: Seconds
    """Mean virtual time between two versions."""
    round_s_median: Seconds
    """Median of it."""
    round_s_high: Seconds
    """Its 95 % quantile."""
    staleness_median: Versions
    """Median over the versions of the mean age of their updates."""
    staleness_high: Versions
    """Its 95 % quantile."""
    exposures_up_median: Transfers
    """Median over the clients of the updates that the tap holds."""
    exposures_up_max: Transfers
    """Updates that the tap holds of the client that it holds most of."""
    exposures_up_mean: Transfers
    """Mean over the clients of the updates that the tap holds."""
    exposures_down_max: Transfers
    """Models that the tap holds of those sent to the client that it holds most for."""
    exposures_down_mean: Transfers
    """Mean over the clients of the models sent to them that the tap holds."""
    exposures_assumed: Transfers
    """Exposures that the noise is made for."""
    epsilon_provable_max: Epsilon
    """Largest epsilon of a client that is proven whatever the scheme assumes, for the server; infinite: none is."""
    epsilon_exact_max_over_min: Number
    """Largest exact epsilon of a client over the smallest of one, for the server."""
    measured_of_provable: Share
    """Largest epsilon of an audited client that twins have shown over what is proven of that client; above 1: what is
    called proven is wrong. Left out where nothing is proven."""
    uploads_max_over_min: Number
    """Updates that arrived of the client that sent most, over those of the client that sent fewest."""
    used_lowest_10: Number
    """Mean number of aggregated updates of the tenth of the clients that had fewest."""
    used_lowest_20: Number
    """The same of the fifth that had fewest."""
    used_lowest_30: Number
    """The same of the 30 % that had fewest."""
    used_lowest_40: Number
    """The same of the 40 % that had fewest."""
    used_lowest_50: Number
    """The same of the half that had fewest."""
    overheard_down_share: Share
    """Versions that the tap holds from any downlink, over versions published."""
    aggregated_share: Share
    """Part of the tasks whose update was aggregated."""
    late_share: Share
    """Part of the tasks whose update came after its buffer was aggregated, or was not needed."""
    interrupted_share: Share
    """Part of the tasks that were given up, or whose model or update was lost."""
    attacker_upload_share: Share
    """The attackers' part of the updates that arrived."""
    attacker_aggregated_share: Share
    """The attackers' part of the updates that were aggregated with a weight above 0."""
    honest_flagged_share: Share
    """Part of the honest updates, judged or not, that was flagged."""
    malicious_banned_share: Share
    """Part of the attackers that was banned."""
    kappa: Number
    """Squared errors of the aggregates over the spread of the honest updates, of the versions of whose buffer's weight
    the attackers had less than half; where `evaluation.aggregates` asks for it."""
    kappa_bound: Number
    """Least kappa that a rule can guarantee which does not know who is who, for those buffers if their updates weighed
    the same (Allouah et al. 2023)."""
    outnumbered_share: Share
    """Part of the versions of whose buffer's weight the attackers had half or more: nothing can be guaranteed there."""


class MembershipColumns(Described):
    """Further columns of `ends.csv` of an experiment with `membership`: members against non-members."""

    members_found_model_loss: Share
    """Members found by their loss under the last published model, at 1 % false positives; guessing finds .01."""
    members_found_upload_loss: Share
    """The same by their loss under the last upload of each attacked client."""
    members_found_upload_ratio: Share
    """The same by the likelihood ratio of their confidence under it."""
    membership_area_model_loss: Number
    """Area under the ROC curve of the loss under the last published model; guessing has .5."""
    membership_area_upload_loss: Number
    """The same of the loss under the last upload of each attacked client."""
    membership_area_upload_ratio: Number
    """The same of the likelihood ratio of their confidence under it."""


Decibels = Annotated[float, Column(pa.float64(), "dB")]
Similarity = Annotated[float, Column(pa.float64(), "")]


class PictureColumns(Described):
    """Further columns of `ends.csv` of an experiment with `pictures`, of the uploads that were attacked."""

    ssim_first_layer: Similarity
    """Mean SSIM of the images made by division at a dense first layer, 1: the same."""
    ssim_cosine: Similarity
    """The same by descent on the cosine distance of gradients."""
    ssim_l2: Similarity
    """The same by descent on their L2 distance."""
    ssim_guess: Similarity
    """The same of the mean image of the test set, which needs no upload."""
    psnr_first_layer: Decibels
    """PSNR of the mean squared error of the images made by division at a dense first layer."""
    psnr_cosine: Decibels
    """The same by descent on the cosine distance of gradients."""
    psnr_l2: Decibels
    """The same by descent on their L2 distance."""
    labels_read_share: Share
    """Part of the labels of the client's images that the last layer shows."""
    labels_chance_share: Share
    """The same of labels drawn evenly."""


LOWEST = (10, 20, 30, 40, 50)
"""Per cent of the clients, those with the fewest aggregated updates, of which `used_lowest_<n>` is the mean."""

METHODS = ("first_layer", "cosine", "l2")
"""Methods that reconstruct images from uploads."""

NOT_MEASURED = ("seed", "version", "diverged")
"""Columns of a run that are no measured numbers."""

OF_TABLES = (
    "run",
    "source",
    "original",
    "provenance",
    "notes",
    "privacy",
    "round",
    "metric",
    "mean",
    "low",
    "high",
    "seeds",
)
"""Columns of tables of an experiment that are no columns of its runs."""

OF_ROUNDS = (
    RoundsTable,
    RegressionColumns,
    FairnessColumns,
    AggregateColumns,
    UploadEpsilonColumns,
    EpsilonColumns,
    AddedRoundColumns,
)
"""Declarations of the table of rounds, with the columns that experiments add."""


OF_LAST_VERSION = (
    *("participants", "honest_bans", "malicious_bans"),
    *UploadEpsilonColumns.model_fields,
    *AggregateColumns.model_fields,
)
"""Columns of rounds that `ends.csv` has of the last version alone, as `<name>_last`; a detector's columns too."""

OF_WHOLE_RUN = (
    "staleness_mean",
    "staleness_max",
    "waiting_max",
    *(name for name in (*COUNTS, *SHARES) if not name.endswith("_bans")),
)
"""Columns of rounds that `ends.csv` has over all versions, as `<name>_total`."""


def end_name(column: str) -> str:
    """Return the name in `ends.csv` of a column of rounds. What stands for one version in a table of rounds, and not
    for the run so far, has a name that says whether it is of the last version or of the whole run."""
    if column in OF_WHOLE_RUN:
        return f"{column}_total"
    return f"{column}_last" if column in OF_LAST_VERSION or column.startswith("detector_") else column


def measured_columns(
    table: str,
    domains: Iterable[str] = (),
    targets: Iterable[str] = (),
    methods: Iterable[str] = METHODS,
    *,
    membership: bool = True,
) -> dict[str, Column]:
    """Return name -> declaration of the measured columns of a table (rounds, ends) of an experiment.

    domains: of the federations of the experiment, two or more; targets: names of its targets; methods: of its attacks
    on uploads; membership: whether it infers membership.
    """
    found = {name: about for name, about in columns_of(*OF_ROUNDS).items() if name not in NOT_MEASURED}
    accuracy = FAMILIES["test_accuracy_"]
    if domains := tuple(domains):
        found |= {f"test_accuracy_{name}": accuracy for name in (*domains, "domains_mean", "domains_min")}
    if table == "rounds":
        return found
    found = {end_name(name): about for name, about in found.items()} | columns_of(WholeRunColumns)
    if methods := tuple(methods):
        others = tuple(method for method in METHODS if method not in methods)
        found |= {name: about for name, about in columns_of(PictureColumns).items() if not name.endswith(others)}
    if membership:
        found |= columns_of(MembershipColumns)
    return found | {name: Column(accuracy.type, unit_of(name), "cost of reaching the target") for name in targets}


@cache
def unit_of(column: str) -> str:
    """Return the unit of a measured column; empty for one that is not known."""
    prefixes = TARGETS | {start: about.unit for start, about in FAMILIES.items()}
    known = (measured_columns("rounds") | measured_columns("ends")).get(column)
    if known is not None and not column.startswith(tuple(TARGETS)):
        return known.unit
    return next((unit for start, unit in prefixes.items() if column.startswith(start)), "")


def range_of(column: str) -> tuple[float, float]:
    """Return the least and the largest value that a measured column can have; infinite where there is no limit.

    Some shares are ratios that may exceed 1.
    """
    signed = next((most for start, most in SIGNED.items() if column.startswith(start)), None)
    if signed is not None:
        return -math.inf, signed
    counted = column.startswith((*TARGETS, "test_accuracy_"))
    if not counted and column not in measured_columns("rounds") | measured_columns("ends"):
        return -math.inf, math.inf
    return 0.0, 1.0 if unit_of(column) == "share" else math.inf


def is_known(column: str, table: str, columns: Mapping[str, Column]) -> bool:
    """Return whether a table (rounds, ends) with `columns` may have the column; a detector's or metric's columns are
    not known beforehand."""
    if column.startswith("detector_"):
        return table == "rounds" or column.endswith("_last")
    return column in columns or column.startswith("metric_")
