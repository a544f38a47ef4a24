"""What stands under every figure: where its numbers come from."""

from __future__ import annotations

import pandas as pd

from asyncfl.analysis.statistics import DECISIVE_SEEDS
from asyncfl.experiment import Experiment, Scale


def caption(experiment: Experiment, scale: Scale, cells: pd.DataFrame) -> str:
    """Scale, seeds, data source, and what quick scale lowered, in one or two sentences."""
    if len(cells) == 0:
        return f"{experiment.source}. Formula, not measured; a ring marks the best whole number."
    counts = experiment.seed_counts(scale)
    seeds, said = counts[-1], " or ".join(map(str, counts))
    sources = "; ".join(dict.fromkeys(str(text) for text in cells["provenance"] if str(text) not in ("", "nan")))
    # a caption names the data once, whatever the number of cells that used them
    data = f" Data: {sources}." if sources else ""
    band = "mean and 95 % interval over" if seeds >= DECISIVE_SEEDS else "mean and range of" if seeds > 1 else ""
    text = f"{experiment.source}, scale {scale}: {f'{band} {said} seeds' if band else 'one seed'}.{data}"
    lowered = experiment.lowered(scale)
    return text if not lowered else f"{text} Quick scale lowers: {'; '.join(lowered)}."
