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
from turnout.availability.mathematics.conditional_poisson import inclusion_probabilities
from turnout.availability.minimum_separation import MinimumSeparation, SeparatedSampling, minimum_separation
from turnout.availability.periodic import Periodic, periodic
from turnout.availability.trace import Trace, trace
from turnout.availability.two_classes import two_classes

__all__ = ["ErgodicProcess", "Process", "inclusion_probabilities"]
__all__ += ["Bernoulli", "BoundedAbsence", "Clustered", "Cyclic", "Diurnal", "FiniteChain", "Markov"]
__all__ += ["MinimumSeparation", "Periodic", "SeparatedSampling", "Trace"]
__all__ += ["alternating", "bernoulli", "bounded_absence", "clustered", "cyclic", "diurnal", "finite_chain"]
__all__ += ["markov", "minimum_separation", "periodic", "trace", "two_classes"]
