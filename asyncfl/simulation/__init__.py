"""SimPy drives server, clients and world: one seed of a scenario from start to end."""

from asyncfl.simulation.run import SimulatedRuns, prepared, simulate_clock, simulate_seed

__all__ = ["SimulatedRuns", "prepared", "simulate_clock", "simulate_seed"]
