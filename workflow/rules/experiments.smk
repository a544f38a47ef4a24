# Per experiment: tables from its runs, figures and verdicts from its tables, all in one job, as a process takes longer
# to start than any of them; and a target that asks for it.

CODE = {step: step_digest(step) for step in ("pictures", "analysis")}

for name, planned in PLAN.selected.items():
    folder = folder_of(name)
    pictures = [f"{folder}/pictures.csv"] if planned.experiment.pictures else []

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
            rule_name("analysis", name)
        input:
            experiment=str(planned.path),
            pictures=pictures,
            runs=runs_of(name, RUN_TABLES),
        output:
            f"{folder}/claims.csv",
            f"{folder}/{CAPTIONS}",
            [f"{folder}/{table}" for table in table_files(planned.experiment)],
            [
                f"{folder}/{figure.name}.{ending}"
                for figure in planned.experiment.all_figures
                for ending in METADATA
                if ending != "pdf"
            ],
            # the smallest of the three; a report holds each file whole
            [
                report(
                    f"{folder}/{figure.name}.pdf",
                    caption="../report/figure.rst",
                    category=planned.experiment.source.paper,
                    labels={"experiment": name, "figure": figure.name},
                )
                for figure in planned.experiment.all_figures
            ],
        log:
            f"{RESULTS}/logs/{PLAN.scale}/{name}/analysis.log",
        conda:
            "../envs/asyncfl.yaml"
        threads: 1
        params:
            code=CODE["analysis"],
            name=name,
            style=config["style"],
            title=planned.experiment.title,
        script:
            "../scripts/analysis.py"

    rule:
        name:
            rule_name("", name)
        input:
            f"{folder}/claims.csv",
