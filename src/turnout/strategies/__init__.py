"""One algorithm a file; each derives from `Strategy` directly."""

from turnout.strategies.adafed import AdaFed
from turnout.strategies.base import Strategy
from turnout.strategies.ca_fed import CAFed
from turnout.strategies.fedavg import FedAvg
from turnout.strategies.more_available import MoreAvailable
from turnout.strategies.unbiased import Unbiased

__all__ = ["AdaFed", "CAFed", "FedAvg", "MoreAvailable", "Strategy", "Unbiased"]
