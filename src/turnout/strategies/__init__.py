"""One algorithm a file; each derives from `Strategy` directly."""

from turnout.strategies.adafed import AdaFed
from turnout.strategies.base import Strategy
from turnout.strategies.fedavg import FedAvg
from turnout.strategies.more_available import MoreAvailable
from turnout.strategies.separated import Separated
from turnout.strategies.unbiased import Unbiased

__all__ = ["AdaFed", "FedAvg", "MoreAvailable", "Separated", "Strategy", "Unbiased"]
