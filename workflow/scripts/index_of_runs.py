"""Job: writes which experiment and axis values each run belongs to."""

from asyncfl.base.collector import collect_seldom

collect_seldom()  # before most imports

import pandas as pd

from asyncfl.experiments.csv_files import write_csv
from asyncfl.experiments.files import find
from asyncfl.experiments.job import logged
from asyncfl.experiments.plan import index_rows, load_all

with logged(snakemake.log[0]):
    rows = index_rows(load_all(find(snakemake.config["experiments"]), check=False))
    print(f"{len(rows)} cells")
    write_csv(pd.DataFrame(rows, columns=["run", "experiment", "scale", "cell"]), snakemake.output[0])
