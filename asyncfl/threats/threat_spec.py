"""The `threats` section of a scenario: the attack, the attackers and their schedule."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from asyncfl.base.answers import numbers
from asyncfl.base.arrays import Floats, Ints
from asyncfl.base.component import Described, choice
from asyncfl.base.errors import Fault
from asyncfl.base.quantities import MeasuredIn
from asyncfl.base.streams import Streams
from asyncfl.threats.attack import Attack
from asyncfl.threats.composite import BASIC_ATTACKS, Adaptive, Combined, Veto
from asyncfl.threats.lying_evaluator import LyingEvaluator

AnyAttack: Any = choice(Attack, *BASIC_ATTACKS, Adaptive, Veto, Combined)
"""Annotation of a field that holds an attack, chosen by `kind`."""


def _count_or_share(value: Any) -> Any:
    """Return `value` if it is an integer >= 0 or a float in 0..1; raise ValueError otherwise."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not (0 <= value < 2**63 if isinstance(value, int) else 0 <= value <= 1):
        raise ValueError("must be a whole number of clients, 0..2^63 - 1, or a share with a decimal point, 0.0..1.0")
    return value


CountOrShare = Annotated[int | float, BeforeValidator(_count_or_share)]


class Rhythm(Described):
    """Each attacker is honest for `asleep` of its tasks, then attacks with `awake` tasks, and so on."""

    asleep: Annotated[int, Field(ge=1, examples=[3]), MeasuredIn("tasks")]
    """Honest tasks at the beginning of each period, >= 1."""
    awake: Annotated[int, Field(ge=1), MeasuredIn("tasks")] = 1
    """Attacking tasks that follow, >= 1."""

    def attacks(self, turn: int) -> bool:
        """Return whether an attacker attacks in its task number `turn` (0, 1, ...)."""
        return turn % (self.asleep + self.awake) >= self.asleep


class Threats(Described):
    """Some clients attack. They follow the schedule and, except for `tailored`, do not know the server's defences."""

    attack: AnyAttack
    """The attack."""
    attackers: Annotated[CountOrShare, MeasuredIn("clients or share"), Field(examples=[0.2])]
    """Number of attackers: an integer, or a share with a decimal point, 0.0..1.0 (rounded); of all clients (`pool`,
    `last`), or of the tasks of each round (`per_round`)."""
    selection: Literal["pool", "last", "per_round"] = "pool"
    """`pool`: the same clients, drawn at random, attack throughout the run. `last`: those with the largest numbers do,
    to which `data.holders` leaves no share of the data. `per_round`: a fixed number of the tasks that start together
    attack, drawn anew each time; where tasks do not start in cohorts, K consecutive tasks form a round."""
    attackers_add_noise: bool = True
    """Whether attackers add the privacy scheme's noise to their uploads, as honest clients do."""
    attackers_lie: bool = False
    """Whether an attacker answers score requests by 1 - accuracy, unless its attack determines the answer. Off by
    default: SAFL's evaluator is an honest client."""
    from_version: Annotated[int, Field(ge=0), MeasuredIn("versions")] = 0
    """First model version on which tasks are attacks; before it attackers are honest."""
    until_version: Annotated[int, Field(ge=1), MeasuredIn("versions")] | None = None
    """First model version on which tasks are honest again; null: never."""
    rhythm: Rhythm | None = None
    """Number of honest tasks between attacks (sleeping attackers); null: every task is an attack."""

    @model_validator(mode="after")
    def _check_span(self) -> Self:
        if self.until_version is not None and self.until_version <= self.from_version:
            raise ValueError(
                f"until_version must be above from_version ({self.from_version}), got {self.until_version}"
            )
        return self

    @property
    def off(self) -> bool:
        """Whether there are no attackers."""
        return self.attackers == 0

    def count(self, of: int) -> int:
        """Return the number of attackers among `of` clients (or tasks of a round), 0..of."""
        if isinstance(self.attackers, int):
            return min(self.attackers, of)
        return round(self.attackers * of)

    def draw(self, streams: Streams, clients: int) -> Ints:
        """Return the sorted indices of the attackers among clients 0..clients-1, for selections `pool` and `last`. Of
        a pool clients are ranked at random and the first are the attackers. A larger number of attackers includes a
        smaller one, so that runs with different numbers can be compared."""
        if self.selection == "last":
            return np.arange(clients - self.count(clients), clients)
        return np.sort(streams.generator("attackers").permutation(clients)[: self.count(clients)])

    def active(self, base_version: int, turn: int = 0) -> bool:
        """Return whether an attacker attacks in a task that starts from version `base_version`: data, update and noise.
        `turn`: number of tasks that this client was given before."""
        awake = self.rhythm is None or self.rhythm.attacks(turn)
        over = self.until_version is not None and base_version >= self.until_version
        return awake and self.from_version <= base_version and not over

    def lie(self, scores: Floats, random: np.random.Generator) -> Floats:
        """Return an attacker's answer (n_models,) to a score request with true answer `scores` (0..1)."""
        if self.attack.lies:
            return numbers(self.attack, "lie", self.attack.lie(scores, random), scores.shape)
        return LyingEvaluator().lie(scores, random) if self.attackers_lie else scores

    def too_many(self, of_round: int) -> Iterator[Fault]:
        """Yield a fault if more attackers are drawn per round than the round has tasks (`of_round`)."""
        if self.selection == "per_round" and isinstance(self.attackers, int) and self.attackers > of_round:
            yield Fault(
                "attackers",
                f"must be 0..{of_round}, the tasks of a round, or a share 0.0..1.0, got {self.attackers}; "
                "lower threats.attackers or set threats.selection: pool",
            )

    def faults(self, clients: int, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        """Yield why this cannot work with `clients` clients and samples of `shape` in `classes` classes. Field names
        are relative to the threats."""
        if isinstance(self.attackers, int) and self.attackers > clients:
            yield Fault(
                "attackers",
                f"must be 0..clients ({clients}) or a share 0.0..1.0, got {self.attackers}; "
                "lower threats.attackers or raise data.clients",
            )
        yield from (fault.under("attack") for fault in self.attack.faults(classes, shape))
