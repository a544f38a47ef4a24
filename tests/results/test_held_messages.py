"""Messages of a client that adversaries hold, against the ledger's releases and the events."""

from typing import Any

import pytest

from asyncfl.api import simulate
from asyncfl.protocol.tasks import Tasks
from asyncfl.results.held_messages import HeldMessages, held_messages


@pytest.fixture
def lossy(tiny: dict[str, Any]) -> dict[str, Any]:
    """Uploads of several packets that are lost as a whole or in part, and a tap that misses packets."""
    uplink = {"mtu_bytes": 10_000, "retransmissions": 0, "loss": {"kind": "independent", "probability": 0.3}}
    privacy = {"kind": "dp_fedavg", "clip_norm": 1.0, "noise_multiplier": 2.0}
    tap = {"uplink": True, "packet_loss": 0.4}
    return tiny | {
        "world": {"uplink": uplink, "tap": tap},
        "privacy": privacy,
        "protocol": {"kind": "sync", "rounds": 6},
    }


def test_uploads_are_held_whole_or_in_part_as_the_tasks_say(lossy: dict[str, Any]) -> None:
    run: Any = simulate(lossy)
    tasks, ledger = Tasks.of(run.tables["tasks"]), run.ledger
    published = dict(zip(run.rounds["version"].tolist(), run.rounds["time_s"].tolist(), strict=True))
    rows = ledger[(ledger["adversary"] == "eavesdropper") & (ledger["holder"] == "client")].set_index("client")
    found = {client: held_messages(tasks, published, client, 10_000) for client in range(5)}
    for client, held in found.items():
        heard = held["eavesdropper"]
        own = run.tasks[run.tasks["client"] == client]
        assert heard.whole == own["overheard_up_s"].notna().sum()
        assert (
            heard.whole + heard.in_part == own[["overheard_up_s", "overheard_up_in_part_s"]].notna().any(axis=1).sum()
        )
        # An upload tells of the model that it was trained from, and so of earlier uploads.
        assert heard.whole + heard.in_part <= rows.loc[client, "releases"]
        assert heard.versions == 0
        server = held["server"]
        assert server.whole == own["uploaded_s"].notna().sum()
        assert (server.versions, server.published) == (7, 7)
        assert max(server.whole, heard.whole) <= held["both"].whole <= server.sent
    assert any(held["eavesdropper"].in_part for held in found.values())


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (HeldMessages(3, 2, 1, 4, 5), "3 of its 3 uploads (1 of them in part) and 4 of 5 versions"),
        (HeldMessages(1, 0, 0, 0, 5), "0 of its 1 uploads and 0 of 5 versions"),
    ],
)
def test_numbers_are_given_in_words(held: HeldMessages, words: str) -> None:
    assert held.in_words() == words
