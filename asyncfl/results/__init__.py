"""What an experiment leaves on disk: tables of its runs, figures and verdicts from them, and a report of everything.

Each step has a digest of the code that it depends on, so that an edit of a figure makes no table anew.
"""

from __future__ import annotations

from asyncfl.experiment.code import modules_digest

STEPS = {
    "pictures": ("asyncfl.results.pictures",),
    "tables": ("asyncfl.results.tables", "asyncfl.analysis.bounds", "asyncfl.analysis.table"),
    "figures": ("asyncfl.results.figures", "asyncfl.analysis.figures"),
    "verdicts": ("asyncfl.results.verdicts", "asyncfl.analysis.claims"),
    "looks": ("asyncfl.results.looks", "asyncfl.analysis.claims"),
    "report": ("asyncfl.results.report",),
}
"""Step -> modules that it begins with. Figures, claims and tables are described in the experiment, so that no import of
the step leads to them."""


def step_digest(step: str) -> str:
    """16 hex digits over the code that a step depends on."""
    return modules_digest(*STEPS[step])
