"""Preparation, evaluation and tables of one seed, shared by simulated and live federations.

In the order of a run: `resolve` (runs on which this one depends), `prepare` (data, clients, attackers, the server's
plan), `evaluation` (the quality of a model), `round_recorder` (the table of rounds as it grows), then the results of a
seed (`seed_run`), their tables (`run_tables`) and the privacy ledger (`seed_ledger`).
"""

from asyncfl.federation.prepare import Federation, PriorRuns, ResolvedSeed, prepare, resolve
from asyncfl.federation.run_tables import clients_table, per_client_table, rounds_table, seed_summary
from asyncfl.federation.seed_ledger import SeedLedger
from asyncfl.federation.seed_run import SeedRun

__all__ = [
    "Federation",
    "PriorRuns",
    "ResolvedSeed",
    "SeedLedger",
    "SeedRun",
    "clients_table",
    "per_client_table",
    "prepare",
    "resolve",
    "rounds_table",
    "seed_summary",
]
