"""SimPy drives server, clients and world: one seed of a scenario from start to end."""

from asyncfl.simulation.ledger import SeedLedger
from asyncfl.simulation.seed import simulate_clock, simulate_seed
from asyncfl.simulation.seed_run import SeedRun
from asyncfl.simulation.tables import clients_table, rounds_table, seed_summary

__all__ = [
    "SeedLedger",
    "SeedRun",
    "clients_table",
    "rounds_table",
    "seed_summary",
    "simulate_clock",
    "simulate_seed",
]
