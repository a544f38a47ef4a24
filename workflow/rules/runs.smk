# Simulates and trains: one rule per job, a job computes one or several cheap runs.

for job in PLAN.jobs:

    rule:
        name:
            job.name
        output:
            [
                f"{RESULTS}/runs/{digest}/{file}"
                for digest in job.digests
                for file in RUN_FILES
            ],
        log:
            f"{RESULTS}/logs/{job.name}.log",
        # long ones first, so that none is left alone at the end
        priority: round(job.cost_s)
        conda:
            "../envs/asyncfl.yaml"
        threads: threads_of(job)
        resources:
            runtime=growing(job.minutes),
            mem_mb=growing(job.memory_mb),
        params:
            code=job.code,
        script:
            "../scripts/simulate.py"


rule index_of_runs:
    input:
        [str(path) for path in PLAN.paths.values()],
    output:
        f"{RESULTS}/runs/index.csv",
    log:
        f"{RESULTS}/logs/index_of_runs.log",
    conda:
        "../envs/asyncfl.yaml"
    threads: 1
    params:
        code=PLAN.steps["index"],
    script:
        "../scripts/index_of_runs.py"
