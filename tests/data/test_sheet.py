import pytest

from asyncfl.base.errors import DataError, OutputError
from asyncfl.data import contact_sheet


def test_a_contact_sheet_is_reproducible(tmp_path, save):
    save("usps")
    path = contact_sheet(["mnist", "usps"], tmp_path / "deep" / "sheet.png")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert contact_sheet(["mnist", "usps"], path).read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["sheet.png"]


def test_unknown_names_and_unwritable_files_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"names: must be of mnist.*got cifar, imagenet"):
        contact_sheet(["cifar", "mnist", "imagenet"], tmp_path / "sheet.png")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        contact_sheet(["mnist"], tmp_path / "file" / "sheet.png")


def test_only_png_files_are_overwritten(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    for taken in (tmp_path / "thesis.tex", tmp_path):
        with pytest.raises(OutputError, match="cannot write"):
            contact_sheet(["mnist"], taken)
    assert (tmp_path / "thesis.tex").read_text() == "precious"
