# From the experiment files to every table, figure and verdict.
#
#   snakemake --cores 8                                  all experiments, quick scale
#   snakemake --cores 8 --config scale=full              the papers' size
#   snakemake --cores 8 --config only=nbafl/fig2         one experiment; or a folder, or several with commas
#   snakemake --cores 8 nbafl_fig2                       the same as a target
#   snakemake --cores 8 --config results=/somewhere/else
#   snakemake --cores 8 --config scale=full core_hours=40        seeds after the first look take no longer


include: "workflow/rules/common.smk"


rule all:
    default_target: True
    input:
        f"{RESULTS}/claims.csv",
        f"{RESULTS}/claims.md",
        f"{RESULTS}/index.html",
        f"{RESULTS}/runs/index.csv",


onstart:
    # A limit of jobs per second has Snakemake look at all waiting ones every second, and
    # once more a second for each job that has ended: half a core in the end.
    workflow.scheduler.job_rate_limiter = None


onsuccess:
    report = Path(RESULTS, "logs", "report_on_claims.log")
    scores = report.read_text(encoding="utf-8") if report.is_file() else ""
    print(
        f"\n{scores}\nTo look at: {Path(RESULTS, 'index.html').resolve()}\n",
        file=sys.stderr,
    )


include: "workflow/rules/runs.smk"
include: "workflow/rules/looks.smk"
include: "workflow/rules/experiments.smk"
include: "workflow/rules/report.smk"
