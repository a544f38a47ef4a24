"""Simulation of one seed of a scenario: SimPy drives server, clients and world."""

from asyncfl.simulation.simulate import SimulatedRuns, prepared, simulate_clock, simulate_seed
from asyncfl.simulation.workers import TrainingWorkers, started_workers

__all__ = ["SimulatedRuns", "TrainingWorkers", "prepared", "simulate_clock", "simulate_seed", "started_workers"]
