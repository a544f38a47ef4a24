from asyncfl.data import CATALOG, available


def test_rows_say_where_each_data_set_comes_from(save):
    save("usps")
    damaged = save("mnist", x_test=None)
    rows = {row["name"]: row for row in available()}
    assert list(rows) == list(CATALOG)
    assert rows["usps"]["source"] == "real"
    assert (rows["usps"]["train"], rows["usps"]["test"], rows["usps"]["image"]) == (60, 20, "16x16")
    assert rows["mnist"]["path"] == str(damaged)
    assert "x_test: is missing" in rows["mnist"]["provenance"]
    assert rows["mnist_m"] == {
        "name": "mnist_m",
        "source": "embedded",
        "train": None,
        "test": 2000,
        "image": "28x28x3",
        "provenance": "stand-in: digits drawn from fonts, inverted over textures",
        "fetchable": False,
        "path": "",
    }
    assert rows["svhn"]["fetchable"]
