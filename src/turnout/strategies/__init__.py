"""One algorithm per file; each derives from `Strategy` directly. `ClientSide` and `Words` are parts for them."""

from turnout.strategies.ace import ACE
from turnout.strategies.adafed import AdaFed
from turnout.strategies.amplified_fedavg import AmplifiedFedAvg
from turnout.strategies.amplified_scaffold import AmplifiedSCAFFOLD
from turnout.strategies.base import Strategy
from turnout.strategies.c_a_fedavg import CAFedAvg
from turnout.strategies.ca2fl import CA2FL
from turnout.strategies.ca_fed import CAFed
from turnout.strategies.client_side import ClientSide
from turnout.strategies.debiased import Debiased
from turnout.strategies.delay_adaptive import DelayAdaptive
from turnout.strategies.f3ast import F3AST
from turnout.strategies.fair_choice import FairChoice
from turnout.strategies.fedacs import FedACS
from turnout.strategies.fedar import FedAR
from turnout.strategies.fedasync import FedAsync
from turnout.strategies.fedau import FedAU
from turnout.strategies.fedavg import FedAvg
from turnout.strategies.fedawe import FedAWE
from turnout.strategies.fedbuff import FedBuff
from turnout.strategies.feddyn import FedDyn
from turnout.strategies.fedfix import FedFix
from turnout.strategies.fedlaavg import FedLaAvg
from turnout.strategies.fednova import FedNova
from turnout.strategies.fedpbc import FedPBC
from turnout.strategies.fedprox import FedProx
from turnout.strategies.fedstale import FedStale
from turnout.strategies.fedstaleasync import FedStaleAsync
from turnout.strategies.fedvarp import FedVARP
from turnout.strategies.focus import FOCUS
from turnout.strategies.importance_sampling import ImportanceSampling
from turnout.strategies.last_word import LastWord
from turnout.strategies.mifa import MIFA
from turnout.strategies.more_available import MoreAvailable
from turnout.strategies.norm_sampling import NormSampling
from turnout.strategies.optimal_sampling import OptimalSampling
from turnout.strategies.scaffold import SCAFFOLD
from turnout.strategies.stale_fill import StaleFill
from turnout.strategies.unbiased import Unbiased
from turnout.strategies.uniform_sampling import UniformSampling
from turnout.strategies.words import Words

__all__ = [
    "ACE",
    "CA2FL",
    "F3AST",
    "FOCUS",
    "MIFA",
    "SCAFFOLD",
    "AdaFed",
    "AmplifiedFedAvg",
    "AmplifiedSCAFFOLD",
    "CAFed",
    "CAFedAvg",
    "ClientSide",
    "Debiased",
    "DelayAdaptive",
    "FairChoice",
    "FedACS",
    "FedAR",
    "FedAU",
    "FedAWE",
    "FedAsync",
    "FedAvg",
    "FedBuff",
    "FedDyn",
    "FedFix",
    "FedLaAvg",
    "FedNova",
    "FedPBC",
    "FedProx",
    "FedStale",
    "FedStaleAsync",
    "FedVARP",
    "ImportanceSampling",
    "LastWord",
    "MoreAvailable",
    "NormSampling",
    "OptimalSampling",
    "StaleFill",
    "Strategy",
    "Unbiased",
    "UniformSampling",
    "Words",
]
