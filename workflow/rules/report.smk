# The report over all experiments, at the best scale that is on disk.


rule report_on_claims:
    input:
        experiments=[str(path) for path in PLAN.paths.values()],
        claims=[f"{folder_of(name)}/claims.csv" for name in PLAN.selected],
        before=finished_before(),
    output:
        [f"{RESULTS}/{page}" for page in page_files(PLAN.experiments)],
        f"{RESULTS}/claims.md",
        f"{RESULTS}/claims.csv",
        directory(f"{RESULTS}/papers/runs"),
    log:
        f"{RESULTS}/logs/report_on_claims.log",
    conda:
        "../envs/asyncfl.yaml"
    threads: 1
    params:
        code=PLAN.steps["report"],
    script:
        "../scripts/report.py"
