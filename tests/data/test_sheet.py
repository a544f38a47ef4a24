import numpy as np
import pytest
from PIL import Image

from asyncfl.data import contact_sheet
from asyncfl.data.sheet import _panel
from asyncfl.errors import DataError, OutputError


def test_sheet_is_a_png_the_same_every_time(tmp_path, save):
    save("usps")
    path = contact_sheet(["mnist", "usps"], tmp_path / "deep" / "sheet.png")
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert contact_sheet(["mnist", "usps"], path).read_bytes() == content
    assert [p.name for p in path.parent.iterdir()] == ["sheet.png"]


def test_panels_show_a_row_per_class_and_the_source(save):
    save("usps", train=15)
    panel, provenance = _panel("usps", embedded=False)
    assert panel.shape == (280, 12 * 28, 3)
    assert provenance == "USPS, not the complete original (15 + 20 images)"
    assert panel[:28, :56].any()
    assert not panel[:28, 56:].any()  # two zeros among fifteen images
    assert _panel("usps", embedded=True)[1].startswith("stand-in")


@pytest.mark.parametrize(("panels", "size"), [(1, (630, 585)), (3, (1890, 585)), (4, (1890, 1170))])
def test_panels_are_of_one_size_and_three_stand_in_a_row(tmp_path, monkeypatch, panels, size):
    monkeypatch.setattr("asyncfl.data.sheet._panel", lambda name, embedded: (np.zeros((4, 4, 3)), name))
    with Image.open(contact_sheet(["usps"] * panels, tmp_path / "sheet.png")) as sheet:
        assert sheet.size == size


def test_unknown_names_and_unwritable_files(tmp_path):
    with pytest.raises(DataError, match=r"names: must be of mnist.*got cifar, imagenet"):
        contact_sheet(["cifar", "mnist", "imagenet"], tmp_path / "sheet.png")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot write"):
        contact_sheet(["mnist"], tmp_path / "file" / "sheet.png")


def test_only_a_picture_is_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    for taken in (tmp_path / "thesis.tex", tmp_path):
        with pytest.raises(OutputError, match="cannot write"):
            contact_sheet(["mnist"], taken)
    assert (tmp_path / "thesis.tex").read_text() == "precious"
