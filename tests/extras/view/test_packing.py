import base64
import gzip
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asyncfl.extras.view.packing import Packing, pack_curves


def read_back(text: str) -> tuple[Any, Any]:
    """The header, and a function that reads a column, as a page does it."""
    whole = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])

    def numbers(ref: dict[str, Any]) -> Any:
        assert ref["o"] % 8 == 0
        return np.frombuffer(whole, f"<{ref['t']}", ref["n"], 8 + length + ref["o"])

    return header, numbers


@given(st.lists(st.integers(-(2**53), 2**53)), st.lists(st.floats(width=64)), st.lists(st.text()))
def test_columns_survive_a_round_trip(whole: list[int], real: list[float], texts: list[str]) -> None:
    packing = Packing()
    refs = [
        packing.numbers(np.array(whole, np.int64)),
        packing.numbers(np.array(real, np.float64)),
        packing.texts(texts),
    ]
    (first, second, third), numbers = read_back(packing.packed(refs))
    assert numbers(first).astype(np.int64).tolist() == whole
    np.testing.assert_array_equal(numbers(second), real)
    assert [third["texts"][place] for place in numbers(third["codes"])] == texts


@pytest.mark.parametrize(
    ("values", "kind"),
    [([], "i1"), ([-128, 127], "i1"), ([128], "i2"), ([-32769], "i4"), ([2**31], "f8"), ([True], "i1"), ([0.5], "f8")],
)
def test_whole_numbers_take_the_smallest_type_that_holds_them(values: list[Any], kind: str) -> None:
    column = np.array(values) if values else np.array([], np.int64)
    assert Packing().numbers(column)["t"] == kind


def test_packing_is_deterministic_and_free_of_html() -> None:
    def packed() -> str:
        packing = Packing()
        return packing.packed({"name": "</script><b>", "column": packing.numbers(np.arange(99))})

    assert packed() == packed()
    assert base64.b64decode(packed())[4:8] == bytes(4)  # no time of day
    assert set(packed()) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")


def test_a_header_with_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Packing().packed({"end": float("nan")})


def test_updates_that_waited_for_the_server_are_drawn() -> None:
    rounds = pa.table(
        {"version": [0, 1, 2], "time_s": [0.0, 1.0, 2.5], "waiting_max": pa.array([0, 590, 40], pa.int32())}
    )
    packing = Packing()
    packed, numbers = read_back(packing.packed(pack_curves(rounds, None, packing)))
    assert numbers(packed["waiting_max"]).tolist() == [0, 590, 40]
    assert numbers(packed["time"]).tolist() == [0, 1_000_000, 2_500_000]
    earlier = pack_curves(rounds.drop_columns(["waiting_max"]), None, Packing())
    assert "waiting_max" not in earlier
