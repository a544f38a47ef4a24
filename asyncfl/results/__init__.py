"""What an experiment leaves on disk: tables of its runs, figures and verdicts from them, and a report of everything.

Each step has a digest of the code that it depends on, so that an edit of a page draws no figure anew.
"""

from __future__ import annotations

from asyncfl.experiment.code import combined, modules_digest
from asyncfl.results.site.write import texts_digest

STEPS = {
    "attacks": ("asyncfl.results.pictures", "asyncfl.results.membership"),
    "analysis": (
        *("asyncfl.results.tables", "asyncfl.results.figures", "asyncfl.results.verdicts"),
        *("asyncfl.analysis.bounds", "asyncfl.analysis.table", "asyncfl.analysis.figures", "asyncfl.analysis.claims"),
    ),
    "looks": ("asyncfl.results.looks", "asyncfl.analysis.claims"),
    "pages": (
        "asyncfl.results.site.runs",
        *(f"asyncfl.view.{name}" for name in ("page", "packing", "happened", "tables", "comparison")),
    ),
    "report": ("asyncfl.results.report",),
}
"""Step -> modules that it begins with. Figures, claims and tables are described in the experiment, so that no import of
the step leads to them."""


def step_digest(step: str) -> str:
    """16 hex digits over the code that a step depends on."""
    texts = {"report": ("asyncfl.results.site", "templates"), "pages": ("asyncfl.view", "program")}.get(step)
    digest = modules_digest(*STEPS[step])
    return digest if texts is None else combined([digest, texts_digest(*texts)])
