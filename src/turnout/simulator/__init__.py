"""Compiled simulations of whole trainings, with seeds and hyper-parameters side by side."""

from turnout.simulator.client_optimizer import Local
from turnout.simulator.history import History
from turnout.simulator.programs import use_compilation_cache
from turnout.simulator.simulate import simulate, simulate_trials
from turnout.simulator.trial import Trial

__all__ = ["History", "Local", "Trial", "simulate", "simulate_trials", "use_compilation_cache"]
