"""The assumed number of overheard uploads per client, L of NbAFL: a number, a share, or measured in a simulated
timeline. It is fixed before training, and the client noise grows with it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from asyncfl.base.component import Component, choice
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn


class Exposures(Component):
    """A rule for the number of uploads of one client that are assumed to be overheard."""

    logged: ClassVar[tuple[str, ...]] = ("clients.exposures_up", "ledger.assumed_releases", "ledger.releases")
    one_of: ClassVar[tuple[str, ...]] = ("number",)

    def number(self, rounds: int, participants: int, clients: int) -> int | None:
        """Return L, 0..rounds, for T `rounds`, K `participants` and N `clients`. None: measure it in a simulated
        timeline, by default as `MeasuredExposures` does."""
        raise NotImplementedError


class ShareExposures(Exposures):
    """A share of the rounds, rounded up, which makes the paper's remark that L grows with T a rule.

    Source: Wei et al. 2020, figures 7 and 8.
    """

    kind: Literal["share"] = "share"
    share: Annotated[float, Field(gt=0, le=1), MeasuredIn("share")] = 0.2
    """Share of the counted rounds that is overheard, 0..1."""
    of: Literal["rounds", "participations"] = "rounds"
    """Counted rounds: all T | the average T K/N in which a client takes part."""

    def number(self, rounds: int, participants: int, clients: int) -> int | None:
        counted = rounds if self.of == "rounds" else rounds * participants / clients
        # 1e-9 absorbs rounding: 0.2 of 15 rounds is 3, not 4.
        return math.ceil(self.share * counted - 1e-9)


class MeasuredExposures(Exposures):
    """The number of uploads that the scenario's tap overhears. The timeline is simulated without training before the
    noise is calibrated. No update is judged in it, so updates that only a tap on scoring would catch are not counted.
    Only whole uploads count, as in the paper; the ledger charges those caught in part as well.

    The number may exceed the rounds: if no update of a cohort arrives, another is drawn for the same version.

    Source: ours.
    """

    kind: Literal["measured"] = "measured"
    quantile: Annotated[float, Field(gt=0, le=1), MeasuredIn("quantile")] | None = None
    """Quantile over replicates of the most overheard client's count; null: the maximum over replicates."""
    replicates: Annotated[int, Field(ge=1, le=10_000), MeasuredIn("runs")] = 5
    """Number of simulated timelines, each with a seed of its own."""

    def number(self, rounds: int, participants: int, clients: int) -> int | None:
        return None


AnyExposures: Any = Annotated[
    Annotated[Annotated[int, Field(ge=0)], Tag("number")]
    | Annotated[choice(Exposures, ShareExposures, MeasuredExposures), Tag("component")],
    Discriminator(lambda value: "component" if isinstance(value, dict | Exposures) else "number"),
]
"""Type of a field that holds L as a number or as a rule."""


def exposure_faults(assumed: int | MeasuredExposures, rounds: int) -> Iterator[Fault]:
    """Yield a fault if the `assumed` L is a number outside of 0..rounds; the field is relative to the scheme."""
    if isinstance(assumed, int) and not 0 <= assumed <= rounds:
        message = f"must be 0..rounds ({rounds}), got {assumed}; lower privacy.exposures or raise protocol.rounds"
        yield Fault("exposures", message)
