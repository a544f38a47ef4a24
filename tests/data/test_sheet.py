import pytest

from asyncfl.data import contact_sheet
from asyncfl.data.sheet import _panel
from asyncfl.errors import DataError, OutputError


def test_a_contact_sheet_is_reproducible(tmp_path, save):
    save("usps")
    path = contact_sheet(["mnist", "usps"], tmp_path / "deep" / "sheet.png")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert contact_sheet(["mnist", "usps"], path).read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["sheet.png"]


def test_a_panel_shows_a_row_per_class_and_its_source(save):
    save("usps", train=15)
    panel, provenance = _panel("usps", embedded=False)
    assert panel.shape == (280, 12 * 28, 3)
    assert provenance == "USPS, not the complete original (15 + 20 images)"
    assert panel[:28, :56].any()
    assert not panel[:28, 56:].any()  # two zeros among fifteen images
    assert _panel("usps", embedded=True)[1].startswith("stand-in")


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
