from __future__ import annotations

import pytest

from asyncfl.learning.layout import Layout


def test_layers_follow_each_other_without_gaps() -> None:
    layout = Layout.of(
        [("a", {"weight": (3, 2), "bias": (3,)}), ("scale", {"weight": (4,)}), ("b", {"weight": (1, 4), "bias": (1,)})]
    )
    assert [(x.start, x.bias_start, x.stop) for x in layout.layers] == [(0, 6, 9), (9, 13, 13), (13, 17, 18)]
    assert layout.n_parameters == 18
    assert [len(layer) for layer in layout.layers] == [9, 4, 5]
    assert layout["b"].slice == slice(13, 18)


def test_an_unknown_layer_is_refused_by_name() -> None:
    with pytest.raises(KeyError, match=r"no layer 'c'.*a"):
        Layout.of([("a", {"weight": (3, 2), "bias": (3,)})])["c"]
