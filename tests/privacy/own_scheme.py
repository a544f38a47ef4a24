"""A privacy scheme as a user writes it, in a module of the user's own; `test_own_scheme` runs it."""

from typing import Any

from asyncfl.base.errors import Fault
from asyncfl.privacy import ClipTarget, FixedNorm, Guarantee, ModelNoise, Noise, Scheme
from asyncfl.privacy.accounting.calibrate import ClassicalRelease
from asyncfl.privacy.accounting.gaussian import analytic_multiplier
from asyncfl.privacy.client_weights import client_sensitivities, planned_contributions

SLOPPY = "noise halves with each task"


class Halving(Scheme):
    """Gaussian noise of z clip norms that halves with each task of a client, and `server_std` of the server's."""

    kind: str
    z: float = 8.0
    server_std: float = 0.0
    claimed: float = 0.0

    @property
    def clip_target(self) -> ClipTarget:
        return ClipTarget("update")

    def start(self, context: Any) -> FixedNorm:
        return FixedNorm(0.5)

    def upload_noise(self, context: Any, clip_norm: float | None, contribution: Any) -> Noise:
        norm = 0.5 if clip_norm is None else clip_norm
        return Noise(self.z * norm / 2**contribution.turn, 2 * norm)

    def model_noise(self, context: Any, clip_norm: float | None, contributions: Any = ()) -> ModelNoise:
        return ModelNoise(
            self.server_std,
            client_sensitivities(context, contributions or planned_contributions(context), lambda one: 1.0),
        )

    def upload_guarantee(self, context: Any, client: int | None = None) -> Guarantee:
        return Guarantee("client", "replace", "proven", 1.0, 1e-5, 1)

    def classical(self, context: Any, epsilon: float, of_models: bool = False) -> ClassicalRelease | None:
        return ClassicalRelease(self.claimed, 1e-5) if self.claimed else None

    def with_epsilon(self, epsilon: float, epochs: int, length: float) -> tuple[Scheme, dict[str, float]]:
        return self.model_copy(update={"z": 2 * analytic_multiplier(epsilon, 1e-5)}), {}

    def flags(self, context: Any, epsilon: float, of_models: bool = False) -> list[str]:
        return [SLOPPY]

    def notes(self, context: Any) -> list[str]:
        return [f"z begins at {self.z:g}"]

    def faults(self, clients: int, rounds: int, training: Any) -> Any:
        if rounds > 10:
            yield Fault("z", f"must bear the rounds (at most 10), got {rounds}")


class Deaf(Scheme):
    """States nothing, and knows no epsilon."""

    kind: str
