"""How many uploads of one client an eavesdropper is assumed to hold: L of NbAFL.

L is an assumption about the adversary, fixed before training, and the client noise grows with it. Four ways
to say it: a number; a share of all rounds (figure 7: L grows with T); a share of the rounds that a client
takes part in on average (one reading of figure 8, whose text lets L rise with K while its settings say 1); or
measured on the clock, by running the timeline without training against the configured tap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from asyncfl.component import Component, choice
from asyncfl.errors import Fault
from asyncfl.quantities import MeasuredIn


class Exposures(Component):
    """Says how many uploads of one client are assumed to be overheard."""

    logged: ClassVar[tuple[str, ...]] = (
        "clients.exposures_up",
        "ledger.assumed_releases",
        "ledger.releases",
    )

    def number(self, rounds: int, participants: int, clients: int) -> int | None:
        """L, 0..rounds; None: it must be measured on the clock, as `MeasuredExposures` does by default."""
        raise NotImplementedError


class ShareExposures(Exposures):
    """A share of the rounds, rounded up: the paper's remark that L grows with T, made a rule.

    Source: Wei et al. 2020, figures 7 and 8.
    """

    kind: Literal["share"] = "share"
    share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.2
    """Share of them that is overheard, 0..1."""
    of: Literal["rounds", "participations"] = "rounds"
    """All T rounds | the T K/N rounds that a client takes part in on average."""

    def number(self, rounds: int, participants: int, clients: int) -> int | None:
        """ceil(share T) or ceil(share T K/N)."""
        counted = rounds if self.of == "rounds" else rounds * participants / clients
        # 1e-9: 0.2 of 15 rounds is 3, not 4 for the sake of a rounding error.
        return math.ceil(self.share * counted - 1e-9)


class MeasuredExposures(Exposures):
    """What the tap of the scenario really catches: the timeline runs without training before the noise is
    calibrated. Nothing is judged there, so updates that only a tap on scoring would catch are not in it.

    The number may pass that of the rounds: where nothing of a cohort arrives, another is drawn for the same version,
    and each upload that is overheard counts.

    Source: ours.
    """

    kind: Literal["measured"] = "measured"
    quantile: Annotated[float, Field(gt=0, le=1), MeasuredIn("quantile")] | None = None
    """Quantile over replicates of the most overheard client's count; null: the maximum over replicates."""
    replicates: Annotated[int, Field(ge=1, le=10_000), MeasuredIn("runs")] = 5
    """Timelines that are run, each with a seed of its own."""

    def number(self, rounds: int, participants: int, clients: int) -> int | None:
        """None: it must be measured."""
        return None


def _form(value: Any) -> str:
    return "component" if isinstance(value, dict | Exposures) else "number"


AnyExposures: Any = Annotated[
    Annotated[Annotated[int, Field(ge=0)], Tag("number")]
    | Annotated[choice(Exposures, ShareExposures, MeasuredExposures), Tag("component")],
    Discriminator(_form),
]
"""Annotation of a field that holds L as a number or as a rule."""


def assumed_exposures(
    exposures: int | Exposures, rounds: int, participants: int, clients: int
) -> int | MeasuredExposures:
    """L as a number, or how to measure it on the clock; `exposure_faults` says whether it is possible."""
    number = exposures if isinstance(exposures, int) else exposures.number(rounds, participants, clients)
    if number is None:
        return exposures if isinstance(exposures, MeasuredExposures) else MeasuredExposures()
    return number


def exposure_faults(assumed: int | MeasuredExposures, rounds: int) -> Iterator[Fault]:
    """A client that would be overheard more often than there are rounds, fields named relative to the scheme."""
    if isinstance(assumed, int) and not 0 <= assumed <= rounds:
        message = f"must be 0..rounds ({rounds}), got {assumed}; lower privacy.exposures or raise protocol.rounds"
        yield Fault("exposures", message)
