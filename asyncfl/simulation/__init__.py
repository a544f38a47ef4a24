"""SimPy drives server, clients and world: one seed of a scenario from start to end."""

from asyncfl.simulation.run import prepared, simulate_clock, simulate_seed

__all__ = ["prepared", "simulate_clock", "simulate_seed"]
