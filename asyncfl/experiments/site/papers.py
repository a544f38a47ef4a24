"""What the papers are called that experiments come from, and where they are to be had."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper, or a theme of our own."""

    key: str
    """As in an experiment's `source.paper`."""
    name: str
    about: str
    """One line: authors and title, or what is asked."""
    link: str = ""
    """Address; empty where none is known."""


_KNOWN = (
    Paper(
        "nbafl",
        "NbAFL",
        "Wei et al., Federated Learning with Differential Privacy: Algorithms and Performance Analysis (2020)",
        "https://arxiv.org/abs/1911.00222",
    ),
    Paper("safl", "SAFL", "Asynchronous federation with local differential privacy and poison detection"),
    Paper("adaptive", "adaptive DP", "Xu, Tong, Dai: federated learning with adaptive differential privacy"),
    Paper("mechanisms", "mechanisms", "Gaussian and Laplace noise, at the clients, at the server, at both"),
    Paper(
        "dp_fedavg",
        "DP-FedAvg",
        "McMahan et al., Learning Differentially Private Recurrent Language Models (2018)",
        "https://arxiv.org/abs/1710.06963",
    ),
    Paper(
        "FedPAQ",
        "FedPAQ",
        "Reisizadeh et al., FedPAQ: A Communication-Efficient Federated Learning Method (2020)",
        "https://arxiv.org/abs/1909.13014",
    ),
    Paper("defence", "defences", "Our own: which defence holds against which attack, and where none can"),
    Paper("ledger", "ledger", "Our own: what the noise of several papers is worth in one accounting"),
    Paper("audit", "audit", "Our own: what an attacker finds out, beside what is proven"),
)


def paper_of(key: str) -> Paper:
    """The paper of an experiment's `source.paper`; one that is not known here goes by that name."""
    return next((paper for paper in _KNOWN if paper.key == key), Paper(key, key, ""))


def file_of_paper(key: str) -> str:
    """Name of the paper's page: letters, digits, `-` and `_`."""
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in key) + ".html"


def place_of(key: str) -> int:
    """Where a paper stands among all: those that are not known here before our own themes."""
    keys = [paper.key for paper in _KNOWN]
    return 2 * keys.index(key) if key in keys else 2 * keys.index("ledger") - 1
