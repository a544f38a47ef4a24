"""Labels of columns, axes and values on figures and in tables."""

from __future__ import annotations

import math
import re
from typing import Any

from asyncfl.base.quantities import NONE
from asyncfl.data import CATALOG
from asyncfl.experiments.experiment_columns import TARGETS

COLUMNS = {
    "round": "communication round",
    "time_s": "virtual time",
    "train_loss": "training loss",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
    "test_r2": "test $R^2$",
    "test_mae": "mean absolute test error",
    "test_accuracy_domains_mean": "mean accuracy of domains",
    "test_accuracy_domains_min": "accuracy on worst domain",
    "clip_norm": "clipping norm",
    "sigma_u": "client noise",
    "sigma_d": "server noise",
    "bytes_up": "uploaded",
    "bytes_down": "downloaded",
    "staleness_mean": "mean staleness",
    "staleness_max": "largest staleness",
    "round_s_mean": "mean time between versions",
    "round_s_median": "median time between versions",
    "round_s_high": "95 % quantile of the time between versions",
    "staleness_median": "median staleness",
    "staleness_high": "95 % quantile of staleness",
    "exposures_up_median": "median exposure of the clients",
    "attack_success": "backdoor success",
    "honest_banned": "honest clients banned",
    "malicious_banned": "attackers banned",
    "malicious_banned_share": "share of attackers banned",
    "honest_flagged_share": "share of honest updates flagged",
    "waiting_max": "most updates waiting for the server",
    "recall_judged": "recall of judged updates",
    "unjudged_share": "share of updates not judged",
    "versions": "versions published",
    "overheard_down_share": "share of versions overheard",
    "exposures_up_max": "largest exposure of a client",
    "bound": "bound on the loss gap",
    "exposures_up_mean": "mean exposure of the clients",
    "exposures_assumed": "exposure $L$ that the noise is made for",
    "time_to_target": "virtual time to the target",
    "rounds_to_converge": "rounds to convergence",
    "budget_sum": "sum of a round's budgets",
    "sigma_u_mean": "mean client noise",
    "bytes_to_target": "traffic to the target",
    "epsilon_naive_max": "largest ε of a client, claims added up",
    "epsilon_basic_max": "largest ε of a client, basic composition",
    "epsilon_rdp_max": "largest ε of a client, RDP",
    "epsilon_exact_max": "largest ε of a client, exact",
    "epsilon_exact_overheard_max": "largest ε of a client, exact for what is overheard",
    "epsilon_exact_median": "median ε of the clients, exact",
    "epsilon_naive_model": "ε of published models, claims added up",
    "epsilon_basic_model": "ε of published models, basic composition",
    "epsilon_advanced_model": "ε of published models, advanced composition",
    "epsilon_rdp_model": "ε of published models, RDP",
    "epsilon_exact_model": "ε of published models, exact",
    "epsilon_exact_sum": "ε of uploads and models, exact ones added up",
    "epsilon_measured_max": "largest ε of an audited client, measured",
    "epsilon_measured_overheard_max": "largest ε of an audited client, measured for what is overheard",
    "epsilon_measured_upload": "largest ε of one upload, measured",
    "epsilon_measured_model": "ε of published models, measured",
    "epsilon_provable_max": "largest ε of a client, proven",
    "epsilon_exact_max_over_min": "largest over smallest ε of a client",
    "uploads_max_over_min": "most over fewest uploads of a client",
    "measured_of_provable": "measured ε over proven ε",
    "sensitivity_share_max": "furthest twin over the assumed sensitivity",
    "attacker_upload_share": "attackers' share of arrivals",
    "kappa": "squared error of aggregates over honest spread",
    "kappa_bound": "least that a rule without identities can guarantee",
    "outnumbered_share": "share of buffers without an honest majority",
    "aggregate_error": "squared error of the aggregate",
    "honest_spread": "spread of the honest updates",
    "attackers_weight": "attackers' share of a buffer's weight",
    "attacker_aggregated_share": "attackers' share of aggregated updates",
    "aggregated_share": "tasks whose update was aggregated",
    "late_share": "tasks whose update came late",
    "interrupted_share": "tasks that were interrupted",
    "members_found_model_loss": "members found by the model's loss",
    "members_found_upload_loss": "members found by the upload's loss",
    "members_found_upload_ratio": "members found by the upload's likelihood ratio",
    "membership_area_model_loss": "ROC area, loss of the model",
    "membership_area_upload_loss": "ROC area, loss of the upload",
    "membership_area_upload_ratio": "ROC area, likelihood ratio of the upload",
    "ssim_first_layer": "SSIM, by division at the first layer",
    "ssim_cosine": "SSIM, by descent on the cosine distance",
    "ssim_l2": "SSIM, by descent on the L2 distance",
    "ssim_guess": "SSIM, of the mean test image",
    "psnr_first_layer": "PSNR in dB, by division at the first layer",
    "psnr_cosine": "PSNR in dB, by descent on the cosine distance",
    "psnr_l2": "PSNR in dB, by descent on the L2 distance",
    "labels_read_share": "share of labels, read from the last layer",
    "labels_chance_share": "share of labels, drawn by chance",
}

WHOLE_RUN = (
    *TARGETS,
    *("bytes_", "exposures_", "overheard_", "attacker_", "kappa", "outnumbered_share", "epsilon_", "staleness_"),
    *("honest_", "malicious_", "round_s_", "versions", "measured_of_", "sensitivity_share_", "ssim_"),
    *("psnr_", "labels_", "uploads_"),
)
"""Prefixes of columns that are counted over a whole run."""

AXES = {
    "threats.attackers": ("share of attackers $p$", "p"),
    "defence.strikes.threshold": ("threshold $th$", "th"),
    "epsilon": (r"$\epsilon$", "epsilon"),
    "noise_multiplier": ("noise multiplier $z$", "z"),
    "clip_norm": ("clipping norm $C$", "C"),
    "exposures": ("exposures $L$", "L"),
    "rounds": ("rounds $T$", "T"),
    "participants": ("participants $K$", "K"),
    "clients": ("clients $N$", "N"),
    "world.tap.at": ("place of the eavesdropper", "tap"),
    "world.tap.packet_loss": ("packet loss of the eavesdropper", "eavesdropper's loss"),
    "world.uplink.loss.probability": ("packet loss of the uplink", "packet loss"),
    "world.device.sigma": (r"spread of device speeds $\sigma$", "sigma"),
}
"""Axis, or last part of its name -> its label on figures, and in plain text."""

VALUES = {"gradient_step": {"printed": "one step an epoch"}}
"""Last part of an axis' name -> value that says nothing by itself -> its words."""

NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf", re.IGNORECASE)
"""A label that is a number."""


def column_label(column: str) -> str:
    """Return a measured column in words; targets named `time_to_70`, `bytes_to_70`, `rounds_to_70` say 70 %."""
    if target := re.fullmatch(r"(time|bytes|rounds)_to_(\d+)", column):
        what = {"time": "virtual time", "bytes": "traffic", "rounds": "rounds"}[target[1]]
        return f"{what} to {target[2]} %"
    if of := re.fullmatch("(.+)_(total|last)", column):
        return column_label(of[1]) if of[2] == "total" else f"final {column_label(of[1])}"
    domain = column.removeprefix("test_accuracy_")
    if column != domain and domain in CATALOG:
        return f"test accuracy on {CATALOG[domain].title}"
    return COLUMNS.get(column, column.replace("_", " "))


def end_label(column: str) -> str:
    """Return the value of a column at the end of a run; counts over the whole run are not called final."""
    named = column.startswith(WHOLE_RUN) or column.endswith(("_total", "_last"))
    return column_label(column) if named else f"final {column_label(column)}"


def axis_label(axis: str, plain_text: bool = False) -> str:
    """Return an axis of the grid: as mathematics on figures, in words in tables."""
    name = axis.rpartition(".")[2]
    drawn, text = AXES.get(axis) or AXES.get(name) or (name.replace("_", " "),) * 2
    return text if plain_text else drawn


def value_label(value: Any, axis: str = "") -> str:
    """Return a value of an axis, or of a dotted field of the scenario, in words."""
    if isinstance(value, str):
        return VALUES.get(axis.rpartition(".")[2], {}).get(value, value)
    if isinstance(value, dict):
        return str(value.get("kind", ", ".join(f"{k}: {v}" for k, v in value.items())))
    if value is None:
        return "none"
    if isinstance(value, float) and math.isinf(value):
        return "no noise" if axis.endswith("epsilon") else "∞"
    return f"{value:g}" if isinstance(value, float) else str(value)


def absent_label(metric: str, mean: float, diverged: int) -> str:
    """Return what stands in place of a mean over seeds that is not finite.

    metric: measured column. diverged: seeds that did.
    """
    if diverged:
        return "diverged"
    if math.isnan(mean):
        return NONE
    if metric.startswith(tuple(TARGETS)):
        return "not by all seeds"
    return "∞" if mean > 0 else "−∞"


def legend_label(axis: str, value: Any) -> str:
    """Return an entry of a legend or the title of a panel: the bare name where the axis is one of names.

    A name that is a number, or a value of a quantity (`L`: one, measured), has the axis beside it.
    """
    text = value_label(value, axis)
    name = axis.rpartition(".")[2]
    if text == "no noise" or (isinstance(value, str) and len(name) > 1 and not NUMBER.fullmatch(value)):
        return text
    drawn = axis_label(axis) if len(name) > 1 else f"${name}$"
    symbol = drawn.rpartition(" ")[2] if "$" in drawn else drawn
    return f"{symbol} = {text}"
