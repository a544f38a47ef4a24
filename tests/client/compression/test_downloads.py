"""Each version is compressed once: the same for all who are sent it, others for other versions."""

import numpy as np

from asyncfl.base.streams import Streams
from asyncfl.client.compression import Downloads, NoCompression, Quantised

MODEL = np.linspace(-1, 1, 50, dtype=np.float32)


def test_a_version_is_the_same_whenever_it_is_made_and_no_two_are_rounded_alike() -> None:
    downloads = Downloads(Quantised(bits=4), Streams(3))
    one = downloads(MODEL, 7)
    assert (one.model == Downloads(Quantised(bits=4), Streams(3))(MODEL, 7).model).all()
    assert (one.model != downloads(MODEL, 8).model).any()
    assert (one.model != Downloads(Quantised(bits=4), Streams(4))(MODEL, 7).model).any()
    assert not one.model.flags.writeable
    assert one.payload is not None
    assert (Quantised(bits=4).unpacked(one.payload, 50) == one.model).all()


def test_what_is_not_compressed_is_the_model_itself() -> None:
    made = Downloads(NoCompression(), Streams(3))(MODEL, 7)
    assert made.model is MODEL
    assert made.payload is None
