"""Simulation of one seed of a scenario: SimPy drives server, clients and world."""

from asyncfl.simulation.run import SimulatedRuns, prepared, simulate_clock, simulate_seed

__all__ = ["SimulatedRuns", "prepared", "simulate_clock", "simulate_seed"]
