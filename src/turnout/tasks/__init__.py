"""Federated problems: the clients' data, a model, a loss, and the optimum where it is known."""

from turnout.tasks.arrays import from_arrays, from_pool
from turnout.tasks.base import Task
from turnout.tasks.data import DataTask, Split
from turnout.tasks.digits import digits
from turnout.tasks.losses import Loss
from turnout.tasks.models import Model, linear, mlp
from turnout.tasks.quadratics import Quadratics, quadratics
from turnout.tasks.robust_regression import robust_regression
from turnout.tasks.synthetic_binary import synthetic_binary
from turnout.tasks.synthetic_leaf import synthetic_leaf
from turnout.tasks.two_clients import two_clients

__all__ = [
    "DataTask",
    "Loss",
    "Model",
    "Quadratics",
    "Split",
    "Task",
    "digits",
    "from_arrays",
    "from_pool",
    "linear",
    "mlp",
    "quadratics",
    "robust_regression",
    "synthetic_binary",
    "synthetic_leaf",
    "two_clients",
]
