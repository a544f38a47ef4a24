"""A workload by pfl-research as somebody runs it who knows torch (see `by_pfl`)."""

from __future__ import annotations

import by_pfl
from work import Turn, Work


def run(work: Work, turn: Turn) -> tuple[dict[str, str], float]:
    """Run the workload; return versions, and the test loss after its last round."""
    return by_pfl.run(work, turn, tuned=True)
