"""Who can be reached, round after round: one process per file."""

from turnout.availability.alternating import alternating
from turnout.availability.base import ErgodicProcess, Process
from turnout.availability.bernoulli import Bernoulli, bernoulli
from turnout.availability.bounded_absence import BoundedAbsence, bounded_absence
from turnout.availability.clustered import Clustered, clustered
from turnout.availability.cyclic import Cyclic, cyclic
from turnout.availability.diurnal import Diurnal, diurnal
from turnout.availability.finite_chain import FiniteChain, finite_chain
from turnout.availability.markov import Markov, markov
from turnout.availability.mathematics.symmetric import inclusion_probabilities
from turnout.availability.minimum_separation import MinimumSeparation, SeparatedSampling, minimum_separation
from turnout.availability.trace import Trace, trace
from turnout.availability.two_classes import two_classes

__all__ = [
    "Bernoulli",
    "BoundedAbsence",
    "Clustered",
    "Cyclic",
    "Diurnal",
    "ErgodicProcess",
    "FiniteChain",
    "Markov",
    "MinimumSeparation",
    "Process",
    "SeparatedSampling",
    "Trace",
    "alternating",
    "bernoulli",
    "bounded_absence",
    "clustered",
    "cyclic",
    "diurnal",
    "finite_chain",
    "inclusion_probabilities",
    "markov",
    "minimum_separation",
    "trace",
    "two_classes",
]
