"""claims.md and index.md show texts of experiment files as text."""

from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["claims.md", "index.md"])
def test_html_in_titles_and_claims_stays_text(results: Path, name: str) -> None:
    page = (results / name).read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script>alert('x')" in page
