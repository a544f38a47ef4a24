"""Scenarios to start from, with a comment at each field that is generated from the classes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from asyncfl.manual.parts import OWN_DEFAULTS, SCENARIO, FieldEntry, Part, as_written, first_sentence

WIDTH = 110
"""Characters in a line."""
SCHEMA = "asyncfl.schema.json"
"""File beside the scenario that editors complete and check by."""

_SMALL: dict[str, Any] = {
    "data": {"dataset": "mnist", "clients": 20, "samples_per_client": 100},
    "model": {"kind": "mlp", "hidden": [64]},
    "training": {"lr": 0.05, "batch_size": 20},
}
_LATE: dict[str, Any] = {
    "device": {"kind": "lognormal", "median_s_per_sample": 0.002, "sigma": 1.0},
    "uplink": {"latency_s": 0.05, "bandwidth_bps": 10e6},
    "downlink": {"latency_s": 0.05, "bandwidth_bps": 50e6},
}
_BUFFERED: dict[str, Any] = {
    "kind": "buffered",
    "rounds": 40,
    "buffer": 5,
    "dispatch": {"kind": "constant", "in_flight": 10},
}
STARTERS: dict[str, tuple[str, dict[str, Any]]] = {
    "sync": (
        "Rounds: every client trains, the server waits for all of them and averages.",
        {**_SMALL, "protocol": {"kind": "sync", "rounds": 20}, "seeds": 1},
    ),
    "buffered": (
        "Clients of different speed on slow links; the server aggregates whenever five updates have come.",
        {**_SMALL, "protocol": _BUFFERED, "world": _LATE, "seeds": 1},
    ),
    "dp": (
        "Differential privacy: clipped updates with noise, and a ledger of what they give away.",
        {
            **_SMALL,
            "protocol": {"kind": "sync", "rounds": 20},
            "privacy": {"kind": "dp_fedavg", "noise_multiplier": 1.1, "clip_norm": 1.0, "noise_at": "server"},
            "seeds": 1,
        },
    ),
    "client-dp": (
        "Privacy of whole clients, after Geyer et al. 2017: a trusted server draws them in secret and adds noise.",
        {
            **_SMALL,
            "data": {"dataset": "mnist", "clients": 100, "samples_per_client": 60},
            "protocol": {
                "kind": "sync",
                "rounds": 40,
                "participants": 10,
                "weighting": "uniform",
                "selection": {"kind": "poisson"},
                "divide_by": "expected",
            },
            "privacy": {
                "kind": "dp_fedavg",
                "noise_multiplier": 0.6312,
                "clip_norm": 0.5,
                "noise_at": "server",
                "neighbours": "zero_out",
                "delta": 0.001,
            },
            "seeds": 1,
        },
    ),
    "attack": (
        "A fifth of the clients flips labels; a detector and strikes against them.",
        {
            **_SMALL,
            "protocol": {**_BUFFERED, "selection": {"kind": "fair"}},
            "world": _LATE,
            "threats": {"attack": {"kind": "label_flip"}, "attackers": 0.2},
            "defence": {"detector": {"kind": "evidence"}, "strikes": {"threshold": 2, "window": 3}},
            "seeds": 1,
        },
    ),
    "own-data": (
        "Data of your own, by a class of ten lines in my_data.py beside this file.",
        {
            **_SMALL,
            "data": {"dataset": {"kind": "my_data:MyData"}, "clients": 20, "samples_per_client": 100},
            "protocol": {"kind": "sync", "rounds": 20},
            "seeds": 1,
        },
    ),
}
"""Kind -> summary, and the fields that it sets."""

OWN_DATA = '''"""A data set of your own: see docs/own-data.md. Put your arrays in place of these."""

import numpy as np

from asyncfl.data import Dataset, Samples


class MyData(Dataset):
    """Points in a plane, and whether they lie outside of a circle."""

    kind: str = "my_data:MyData"
    radius: float = 1.2

    def load(self):
        points = np.random.default_rng(0).normal(size=(5000, 2))
        return Samples(points, (np.hypot(*points.T) > self.radius).astype(int))
'''
"""`my_data.py`, which goes with the starter `own-data`."""


def starter(kind: str, name: str) -> str:
    """Return the text of a scenario of `STARTERS`, with comments. `name`: its file, for the commands in them."""
    summary, fields = STARTERS[kind]
    lines = [
        f"# yaml-language-server: $schema={SCHEMA}",
        *_comment(summary),
        "#",
        f"#   asyncfl run {name}             simulates it",
        "#   asyncfl explain training.lr    tells what a field is; works with any name below",
        "#   asyncfl view RUN --open        shows the run in the browser",
        "#",
        *_comment("Lines behind a # are fields with their defaults: take the # away to change them."),
    ]
    return "\n".join([*lines, *_section(SCENARIO, fields, "", all_fields=False)]) + "\n"


def _section(part: Part, fields: Mapping[str, Any], indent: str, all_fields: bool = True) -> Iterator[str]:
    for field in part.fields:
        if field.name in fields:
            yield from [] if indent else [""]
            yield from _comment(_explanation(field), indent)
            yield from _given(field, fields[field.name], indent)
        elif all_fields and not field.required and field.name != "kind":
            yield from _comment(_explanation(field), indent)
            yield f"{indent}# {field.name}: {'{}' if field.default == OWN_DEFAULTS else field.default}"


def _given(field: FieldEntry, value: Any, indent: str) -> Iterator[str]:
    kind = value.get("kind", "") if isinstance(value, dict) else ""
    inner = next((part for part in field.parts if part.kind == kind), None)
    if inner is None or not isinstance(value, dict):  # a plain value, or a class of the user's own
        yield f"{indent}{field.name}: {as_written(value)}"
        return
    yield f"{indent}{field.name}:"
    if kind:
        yield from _comment(first_sentence(inner.prose.summary), f"{indent}  ")
        yield f"{indent}  kind: {kind}"
    yield from _section(inner, value, f"{indent}  ")


def _explanation(field: FieldEntry) -> str:
    """Explain a field in a sentence, with its unit, its range, and its choices."""
    unit = "" if field.unit == "1" else field.unit
    kinds = ", ".join(part.kind for part in field.choices)
    words = "" if field.choices or " | " not in field.type_words else field.type_words
    about = "; ".join(filter(None, [unit, field.range, f"kinds: {kinds}" if kinds else "", words]))
    return first_sentence(field.text) + (f" [{about}]" if about else "")


def _comment(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
