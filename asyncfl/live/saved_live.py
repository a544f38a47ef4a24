"""State of a live federation between two steps, as its checkpoints hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asyncfl.federation.round_recorder import RoundRecorder
from asyncfl.federation.saved_state import prepared_parts, restored, saved
from asyncfl.live.evaluations import Evaluations
from asyncfl.live.inputs import GoneLink, LiveInputs
from asyncfl.live.live_federation import LiveFederation


@dataclass
class SavedLive:
    """What a server goes on with: the federation, its table of rounds, and versions that were not evaluated."""

    live: LiveFederation
    rounds: RoundRecorder
    waiting: list[Any]
    links: dict[int, Any]
    """Connections of clients by number, which have ended since."""


def _parts(live: LiveFederation, evaluations: Evaluations) -> dict[str, Any]:
    """Return what is made again: name -> object. The tokens are those of the server's folder of that time."""
    given = {"watcher": evaluations, "tokens": live.clients.tokens}
    return prepared_parts(live.federation, evaluations.rounds) | given


def saved_live(inputs: LiveInputs, evaluations: Evaluations) -> memoryview:
    """Return the bytes of a checkpoint. Raises RunError where a component of the user's own cannot be pickled."""
    parts = _parts(inputs.live, evaluations) | {f"link {number}": link for number, link in inputs.links.items()}
    state = SavedLive(inputs.live, evaluations.rounds, evaluations.waiting, dict(inputs.links))
    return saved(state, parts)


def restore_live(content: bytes, inputs: LiveInputs, evaluations: Evaluations) -> None:
    """Give `inputs` and `evaluations`, which are as at the beginning of a run, the state of a checkpoint."""
    state: SavedLive = restored(content, _Parts(_parts(inputs.live, evaluations)))
    inputs.live, inputs.links = state.live, state.links
    evaluations.rounds, evaluations.waiting = state.rounds, state.waiting


class _Parts(dict[str, Any]):
    """Parts by name; a link of an earlier process is one that has ended."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        super().__init__(parts)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the part of that name."""
        if name.startswith("link "):
            return self.setdefault(name, GoneLink())
        return super().get(name, default)
