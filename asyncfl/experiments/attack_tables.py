"""Membership inference against the runs of an experiment, as a table: one row per axis values, seed and attack."""

from __future__ import annotations

import base64
from typing import Annotated

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from asyncfl.base.columns import Column, Number, Share
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


PICTURES = "pictures.csv"
"""The file of the table, in the folder of an experiment."""

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


def packed(image: NDArray[np.float32]) -> str:
    """An image, pixels 0..1, as text: 256 levels, base64."""
    return base64.b64encode(np.rint(255 * image).astype(np.uint8).tobytes()).decode("ascii")


def unpacked(text: str, shape: tuple[int, int, int]) -> NDArray[np.float32]:
    """The image (channels, height, width) that `packed` wrote, pixels 0..1."""
    pixels = np.frombuffer(base64.b64decode(text), np.uint8).reshape(shape)
    return (pixels / 255).astype(np.float32)


def measured_pictures(pictures: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """A row per axis values and seed: the columns of `PictureColumns`."""
    keys = [*axes, "seed"]
    made = pictures[keys].drop_duplicates().reset_index(drop=True)
    for method, rows in pictures.groupby("method"):
        by = rows.assign(error=10.0 ** (-rows["psnr_db"] / 10)).groupby(keys, dropna=False)
        with np.errstate(divide="ignore"):
            told = pd.DataFrame(
                {f"ssim_{method}": by["ssim"].mean(), f"psnr_{method}": -10 * np.log10(by["error"].mean())}
            )
        made = made.merge(told.reset_index(), on=keys, how="left")
    first = pictures.groupby(keys, dropna=False)
    told = pd.DataFrame(
        {
            "ssim_guess": first["guess_ssim"].mean(),
            "labels_read_share": first["labels_right"].first(),
            "labels_chance_share": first["labels_chance"].first(),
        }
    )
    return made.merge(told.reset_index(), on=keys, how="left")
