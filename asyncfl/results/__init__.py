"""Results of runs: the folder of a run and its tables, the privacy ledger of a seed, models on disk, figures, traces.

`storage` writes and reads a run; `run_tables` and `seed_ledger` make its tables from a simulated seed; `follow`,
`compare_traces`, `perfetto` and `tabulate` read a trace; `trackers` follow a run.
"""
