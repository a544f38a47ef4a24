from asyncfl.data import CATALOG, available


def test_the_list_states_the_source_of_each_data_set(save):
    save("usps")
    damaged = save("mnist", x_test=None)
    rows = {row["name"]: row for row in available()}
    bundled = ["breast_cancer", "diabetes", "digits", "iris", "wine"]
    assert list(rows) == [*CATALOG, *bundled, "femnist", "shakespeare", "adult"]
    assert rows["usps"]["source"] == "real"
    assert (rows["usps"]["train"], rows["usps"]["test"], rows["usps"]["image"]) == (60, 20, "16x16")
    assert rows["mnist"]["path"] == str(damaged)
    assert "x_test: is missing" in rows["mnist"]["provenance"]
    drawn, bundled = rows["mnist_m"], rows["wine"]
    assert (drawn["source"], drawn["train"], drawn["test"], drawn["path"]) == ("embedded", None, 2000, "")
    assert drawn["provenance"] == "stand-in: digits drawn from fonts, inverted over photographs"
    assert (bundled["source"], bundled["train"], bundled["test"], bundled["image"]) == ("real", 142, 36, "13")
    assert (bundled["provenance"], bundled["licence"]) == ("Wine (142 + 36 samples)", "CC BY 4.0")
    assert rows["digits"]["image"] == "8x8"
    assert rows["svhn"]["fetchable"]
    assert (rows["adult"]["image"], rows["adult"]["licence"], rows["adult"]["fetchable"]) == ("108", "CC BY 4.0", True)
    assert (rows["adult"]["train"], rows["adult"]["test"]) == (None, None)
