"""Membership inference against the runs of an experiment, as a table: one row per axis values, seed and attack."""

from __future__ import annotations

import pandas as pd

from asyncfl.base.columns import Number, Share
from asyncfl.base.component import Described

MEMBERSHIP = "membership.csv"
"""The file of the table, in the folder of an experiment: the columns of `asyncfl.audit.membership.FOUND`."""
ATTACKS = {
    "loss of the last model": "model_loss",
    "loss of uploads": "upload_loss",
    "likelihood ratio of uploads": "upload_ratio",
}
"""Attack (`asyncfl.audit.membership`) -> ending of its columns."""


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


def measured_membership(found: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return a row per axis values and seed with the columns of `MembershipColumns`. `found`: the table."""
    keys = [*axes, "seed"]
    measured = found[keys].drop_duplicates().reset_index(drop=True)
    for attack, ending in ATTACKS.items():
        columns = {"true_positive_rate": f"members_found_{ending}", "area": f"membership_area_{ending}"}
        rows = found[found["attack"] == attack][[*keys, *columns]].rename(columns=columns)
        measured = measured.merge(rows, on=keys, how="left")
    return measured
