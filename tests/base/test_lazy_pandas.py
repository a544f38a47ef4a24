"""Arrow imports pandas only where it is needed, and knows its types from then on."""

import subprocess
import sys

import pytest

PROGRAMS = {
    "arrays need no pandas": """
        import asyncfl.base.tables, pyarrow as pa
        pa.table({"a": [1, 2]}), pa.array([0.5])
        assert "pandas" not in sys.modules
    """,
    "a conversion imports it": """
        import asyncfl.base.tables, pyarrow as pa
        assert pa.table({"a": [1, 2]}).to_pandas()["a"].tolist() == [1, 2]
        import pandas
        assert pa.array(pandas.Series([1.0, None])).null_count == 1
    """,
    "series are known once pandas is imported": """
        import asyncfl.base.tables, pyarrow as pa
        import pandas as pd
        assert pa.array(pd.Series([1.0, None])).null_count == 1
        assert pa.types.is_dictionary(pa.array(pd.Categorical(["a", "b"])).type)
        assert pd.__spec__.origin.endswith("__init__.py") and pd.__loader__.get_filename("pandas") == pd.__file__
        assert importlib.resources.files("pandas").is_dir()
    """,
    "pandas may come first": """
        import pandas as pd
        import asyncfl.base.tables, pyarrow as pa
        assert pa.array(pd.Series([1.0, None])).null_count == 1
    """,
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_arrow_knows_pandas_once_it_is_imported(program: str) -> None:
    lines = [line[8:] for line in program.splitlines()]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(["import sys, importlib.resources", *lines])],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
