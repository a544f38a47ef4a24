# Per experiment: tables from its runs, figures and verdicts from its tables, all in one job, as a process takes longer
# to start than any of them; and a target that asks for it.

for name, planned in PLAN.selected.items():
    folder = folder_of(name)
    attacks = [
        f"{folder}/{what}.csv"
        for what in ("pictures", "membership")
        if getattr(planned.experiment, what)
    ]

    if attacks:

        rule:
            name:
                rule_name("attacks", name)
            input:
                experiment=str(planned.path),
                runs=runs_of(name, RUN_FILES),
            output:
                attacks,
            log:
                f"{RESULTS}/logs/{PLAN.scale}/{name}/attacks.log",
            priority: AT_ONCE
            conda:
                "../envs/asyncfl.yaml"
            threads: 1
            params:
                code=PLAN.steps["attacks"],
                name=name,
            script:
                "../scripts/attacks.py"

    rule:
        name:
            rule_name("analysis", name)
        input:
            experiment=str(planned.path),
            attacks=attacks,
            runs=runs_of(name, RUN_TABLES),
        output:
            f"{folder}/claims.csv",
            f"{folder}/{CAPTIONS}",
            [f"{folder}/{table}" for table in table_files(planned.experiment)],
            [
                f"{folder}/{figure.name}.{ending}"
                for figure in planned.experiment.all_figures
                for ending in METADATA
            ],
        log:
            f"{RESULTS}/logs/{PLAN.scale}/{name}/analysis.log",
        priority: AT_ONCE
        conda:
            "../envs/asyncfl.yaml"
        threads: 1
        params:
            code=PLAN.steps["analysis"],
            name=name,
            style=config["style"],
        script:
            "../scripts/analysis.py"

    rule:
        name:
            rule_name("", name)
        input:
            f"{folder}/claims.csv",
