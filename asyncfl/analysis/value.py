"""The number of a run that a claim is about, as it is written: `final train_loss`, `round 14 test_accuracy`."""

from __future__ import annotations

import re

VALUE = re.compile(
    r"^(?:best (?P<axis>\S+) of )?"
    r"(?:(?P<when>final|mean|lowest|highest|fluctuation)|round (?P<round>\d+)) (?P<column>\w+)$"
)
"""`final train_loss`, `mean test_accuracy` (over rounds), `lowest train_loss`, `fluctuation test_accuracy` (see
`asyncfl.analysis.grid`), `round 14 train_loss`, or `best protocol.rounds of final train_loss`: the axis value at which
the rest is best."""
