# Per experiment: tables from its runs, figures and verdicts from its tables, and a target that asks for all of them.

CODE = {
    step: step_digest(step) for step in ("pictures", "tables", "figures", "verdicts")
}

for name, planned in PLAN.selected.items():
    folder = folder_of(name)
    tables = [
        f"{folder}/{file}"
        for file in [
            "rounds.csv",
            "curves.csv",
            "ends.csv",
            "final.csv",
            "cells.csv",
            "bounds.csv",
        ]
    ]
    pictures = [f"{folder}/pictures.csv"] if planned.experiment.pictures else []
    labels = {"experiment": name, "scale": PLAN.scale}
    paper = planned.experiment.source.paper

    if pictures:

        rule:
            name:
                rule_name("pictures", name)
            input:
                experiment=str(planned.path),
                runs=runs_of(name, RUN_FILES),
            output:
                pictures,
            log:
                f"{RESULTS}/logs/{PLAN.scale}/{name}/pictures.log",
            conda:
                "../envs/asyncfl.yaml"
            threads: 1
            params:
                code=CODE["pictures"],
                name=name,
            script:
                "../scripts/pictures.py"

    rule:
        name:
            rule_name("tables", name)
        input:
            experiment=str(planned.path),
            pictures=pictures,
            runs=runs_of(name, RUN_TABLES),
        output:
            tables,
            [f"{folder}/{table.name}.md" for table in planned.experiment.tables],
        log:
            f"{RESULTS}/logs/{PLAN.scale}/{name}/tables.log",
        conda:
            "../envs/asyncfl.yaml"
        threads: 1
        params:
            code=CODE["tables"],
            name=name,
        script:
            "../scripts/tables.py"

    rule:
        name:
            rule_name("figures", name)
        input:
            experiment=str(planned.path),
            tables=tables,
            pictures=pictures,
        output:
            f"{folder}/caption.txt",
            [
                report(
                    f"{folder}/{figure.name}.{ending}",
                    caption="../report/figure.rst",
                    category=paper,
                    labels={**labels, "figure": figure.name, "format": ending},
                )
                for figure in planned.experiment.all_figures
                for ending in ["svg", "png"]
            ],
        log:
            f"{RESULTS}/logs/{PLAN.scale}/{name}/figures.log",
        conda:
            "../envs/asyncfl.yaml"
        threads: 1
        params:
            code=CODE["figures"],
            name=name,
            title=planned.experiment.title,
        script:
            "../scripts/figures.py"

    rule:
        name:
            rule_name("verdicts", name)
        input:
            experiment=str(planned.path),
            tables=tables,
        output:
            f"{folder}/claims.csv",
        log:
            f"{RESULTS}/logs/{PLAN.scale}/{name}/verdicts.log",
        conda:
            "../envs/asyncfl.yaml"
        threads: 1
        params:
            code=CODE["verdicts"],
            name=name,
        script:
            "../scripts/verdicts.py"

    rule:
        name:
            rule_name("", name)
        input:
            f"{folder}/claims.csv",
            f"{folder}/caption.txt",
