"""Combined: several attacks by the same attackers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, Self

from pydantic import model_validator

from asyncfl.base.component import choice, kind_of
from asyncfl.base.errors import Fault
from asyncfl.base.messages import Vector
from asyncfl.threats.adaptive import Adaptive
from asyncfl.threats.attack import Attack, AttackView
from asyncfl.threats.composite import BASIC_ATTACKS, Composite

AnyPart: Any = choice(Attack, *BASIC_ATTACKS, Adaptive)


class Combined(Composite):
    """Attacks applied one after the other, such as label flip, flooding and lying. Source: ours."""

    kind: Literal["combined"] = "combined"
    attacks: tuple[AnyPart, ...]
    """The attacks in order; each receives the data, updates and scores that the previous one returned."""

    @model_validator(mode="after")
    def _check_parts(self) -> Self:
        if not self.attacks:
            raise ValueError("attacks must name at least one attack")
        if sum(part.target is not None for part in self.attacks) > 1:
            raise ValueError("at most one of the attacks may be a backdoor: its success is measured for one target")
        return self

    @property
    def parts(self) -> dict[str, Attack]:
        return {f"attacks.{number}": part for number, part in enumerate(self.attacks)}

    def faults(self, classes: int, shape: tuple[int, ...]) -> Iterator[Fault]:
        yield from super().faults(classes, shape)
        for number, part in enumerate(self.attacks):
            after = [kind_of(later) for later in self.attacks[number + 1 :] if later.changes_uploads]
            if part.rehearses and after:
                yield Fault(
                    f"attacks.{number}",
                    f"must come after {', '.join(after)}, got {kind_of(part)} before, which rehearses uploads; "
                    "put it last",
                )

    def craft(self, view: AttackView) -> Vector:
        """Return the uploads after all attacks, applied in order to the honest updates. Colluders see each other's
        updates as the previous attack returned them; knowledge `buffer` does not change."""
        for part in self.attacks:
            crafted = part.craft(view)
            if crafted is not None and crafted is not view.honest:
                crafted.flags.writeable = False
                view = replace(view, honest=crafted)
        return view.honest
