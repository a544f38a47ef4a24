"""Messages of one client that the eavesdropper, the server and both hold, by the tasks of a finished run."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from asyncfl.protocol.tasks import Tasks
from asyncfl.results.adversaries import Times, holdings


class HeldMessages(NamedTuple):
    """Uploads of one client, and versions of the model, that an adversary holds."""

    sent: int  # uploads that the client began to send
    whole: int
    in_part: int
    versions: int  # overheard on the way to any client, or published by the server
    published: int

    def in_words(self) -> str:
        """Return the numbers as `2 of its 3 uploads (1 of them in part) and 4 of 5 versions`."""
        part = f" ({self.in_part} of them in part)" if self.in_part else ""
        return (
            f"{self.whole + self.in_part} of its {self.sent} uploads{part} "
            f"and {self.versions} of {self.published} versions"
        )


def held_messages(tasks: Tasks, published: Times, client: int, packet_bytes: int) -> dict[str, HeldMessages]:
    """Return adversary -> messages of `client` that it holds, for the eavesdropper, the server and both.

    `tasks`: of all clients of one seed. `published`: version -> virtual time of its publication. `packet_bytes`: the
    largest packet of an upload; of a longer upload an adversary may hold a part.
    """
    own = tasks.task[tasks.client == client].tolist()
    sent = int(np.sum(~np.isnan(tasks.upload_started_s[tasks.client == client])))
    whole, any_part = holdings(tasks, published), holdings(tasks, published, packet_bytes=packet_bytes)
    found = {}
    for name, held in any_part.items():
        complete = sum(task in whole[name].uploads for task in own)
        parts = sum(task in held.uploads for task in own) - complete
        versions = sum(version in published for version in whole[name].models)
        found[name] = HeldMessages(sent, complete, parts, versions, len(published))
    return found
