"""What stands under every figure: where its numbers come from."""

from __future__ import annotations

import pandas as pd

from asyncfl.analysis.statistics import convention
from asyncfl.experiment import Experiment, Scale


def caption(experiment: Experiment, scale: Scale, cells: pd.DataFrame) -> str:
    """Scale, seeds, data source, and what quick scale lowered, in one or two sentences."""
    if len(cells) == 0:
        return f"{experiment.source}. Formula, not measured; a ring marks the best whole number."
    sources = "; ".join(dict.fromkeys(str(text) for text in cells["provenance"] if str(text) not in ("", "nan")))
    # a caption names the data once, whatever the number of cells that used them
    data = f" Data: {sources}." if sources else ""
    *fewer, seeds = experiment.seed_counts(scale)
    others = f", in some cells {' or '.join(map(str, fewer))}" if fewer else ""
    text = f"{experiment.source}, scale {scale}: {convention(seeds)}{others}.{data}"
    lowered = experiment.lowered(scale)
    return text if not lowered else f"{text} Quick scale lowers: {'; '.join(lowered)}."
