# Between two looks: which cells get more seeds. Only experiments whose seeds are `looks` are asked.

RUN_TABLES = ["rounds.parquet", "clients.parquet", "spending.parquet", "summary.json"]
LOOKS = max((len(planned.looks) for planned in PLAN.with_looks.values()), default=1)


def of_runs(found, files):
    """These files of runs."""
    return [
        str(cell.folder(Path(RESULTS, "runs")) / file)
        for cell in found
        for file in files
    ]


def looks_file(number):
    """What was decided after the look of this number, from 1."""
    return f"{RESULTS}/{PLAN.scale}/looks/look_{number}.json"


def counts_after(number):
    """Looks at each cell by experiment, after so many looks; waits for the last of them."""
    return read_looks(getattr(checkpoints, f"look_{number}").get().output[0])


def runs_at_look(number):
    """The runs that the look of this number is made at, of all experiments that have looks."""
    if number == 1:
        runs = [run for planned in PLAN.with_looks.values() for run in planned.cells]
        return of_runs(runs, RUN_TABLES)

    def wanted(wildcards):
        counts = counts_after(number - 1)
        looks = [planned.at(counts[name]) for name, planned in PLAN.with_looks.items()]
        return of_runs([run for look in looks for run in look], RUN_TABLES)

    return wanted


def runs_of(name, files):
    """These files of an experiment's runs: those of its last look where it has looks."""
    planned = PLAN.selected[name]
    if name not in PLAN.with_looks:
        return of_runs(planned.cells, files)
    return lambda wildcards: of_runs(planned.at(counts_after(LOOKS - 1)[name]), files)


for number in range(1, LOOKS):

    checkpoint:
        name:
            f"look_{number}"
        input:
            experiments=[str(planned.path) for planned in PLAN.with_looks.values()],
            before=looks_file(number - 1) if number > 1 else [],
            runs=runs_at_look(number),
        output:
            looks_file(number),
        log:
            f"{RESULTS}/logs/{PLAN.scale}/look_{number}.log",
        priority: AT_ONCE
        conda:
            "../envs/asyncfl.yaml"
        threads: 1
        params:
            code=PLAN.steps["looks"],
            names=list(PLAN.with_looks),
            core_hours=config["core_hours"],
        script:
            "../scripts/looks.py"
