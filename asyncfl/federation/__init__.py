"""What every driver of a federation stands on, whether time is simulated or real.

In the order of a run: `resolve` (what other runs must tell first), `prepare` (data, clients, attackers, the server's
plan), `evaluation` (the numbers of a model), `rounds` (the table as it grows), then what the seed left behind
(`seed_run`), its `tables` and its `ledger`.
"""

from asyncfl.federation.prepare import Federation, prepare
from asyncfl.federation.resolve import PriorRuns, ResolvedSeed, resolve
from asyncfl.federation.run_tables import clients_table, per_client_table, rounds_table, seed_summary, table_of_rounds
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
    "table_of_rounds",
]
