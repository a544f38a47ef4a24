import numpy as np
import pytest

from asyncfl.base.streams import Streams
from asyncfl.data import DataSpec
from asyncfl.data.own import TITLES

KNOWN = {
    "breast_cancer": ((30,), 2, 569),
    "digits": ((1, 8, 8), 10, 1797),
    "iris": ((4,), 3, 150),
    "wine": ((13,), 3, 178),
}


@pytest.mark.parametrize("name", list(KNOWN))
def test_a_data_set_of_scikit_learn_is_complete(name):
    spec = DataSpec(dataset=name, clients=3, samples_per_client=None)
    shape, classes, samples = KNOWN[name]
    data = spec.build(Streams(0))
    assert (data.shape, data.classes, data.original, data.source) == (shape, classes, True, "real")
    tested = round(samples / 5)
    assert len(data.test_labels) == tested
    assert len(data.labels) == (samples - tested) // 3 * 3
    assert set(data.labels.tolist()) == set(range(classes))
    assert np.abs(data.test_images.mean()) < 1e-5
    assert data.test_images.std() == pytest.approx(1, abs=0.1)
    assert data.images.std() == pytest.approx(1, abs=0.2)
    assert spec.names == (name,)
    assert data.provenance.startswith(TITLES[name])


def test_diabetes_is_a_regression():
    spec = DataSpec(dataset="diabetes", clients=3, samples_per_client=None)
    data = spec.build(Streams(0))
    assert set(TITLES) == {*KNOWN, "diabetes"}
    assert (data.shape, data.classes, spec.outputs, data.outputs) == ((10,), 0, 1, 1)
    assert (data.labels.shape, data.test_labels.shape, data.labels.dtype) == ((354, 1), (88, 1), np.float32)
    assert data.provenance == "Diabetes of Efron et al. (2004) (354 + 88 samples; target minus 149.9, over 76.52)"
    raw = {"kind": "scikit_learn", "name": "diabetes", "standardised": False}
    plain = DataSpec(dataset=raw, clients=1, samples_per_client=None).build(Streams(0))
    assert (plain.labels.min(), plain.labels.max()) == (25, 346)
    np.testing.assert_allclose(plain.labels.mean(), 152.7, atol=0.05)
