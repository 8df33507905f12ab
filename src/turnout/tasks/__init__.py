"""Federated problems: the clients' data, a model, a loss, and the optimum where it is known."""

from turnout.tasks.arrays import from_arrays, from_pool
from turnout.tasks.base import Task
from turnout.tasks.cifar10 import cifar10
from turnout.tasks.cinic10 import cinic10
from turnout.tasks.csv import csv as from_csv
from turnout.tasks.data.augmentation import Augment
from turnout.tasks.data.data_task import DataTask, Split
from turnout.tasks.dataset import from_dataset
from turnout.tasks.digits import digits
from turnout.tasks.fashion_mnist import fashion_mnist
from turnout.tasks.femnist import femnist
from turnout.tasks.mnist import mnist
from turnout.tasks.models.adapters import Adapt, adapt, adapted_paths, merge_adapters
from turnout.tasks.models.from_libraries import from_flax, from_torch
from turnout.tasks.models.model import Loss, Model, linear, mlp
from turnout.tasks.models.networks import model_named, network
from turnout.tasks.models.sequences import lstm, transformer
from turnout.tasks.models.state_dicts import (
    load_params,
    params_from_flax,
    params_from_torch,
    params_to_flax,
    params_to_torch,
    save_params,
)
from turnout.tasks.quadratics import Quadratics, quadratics
from turnout.tasks.robust_regression import robust_regression
from turnout.tasks.synthetic_binary import synthetic_binary
from turnout.tasks.synthetic_leaf import synthetic_leaf
from turnout.tasks.text import text
from turnout.tasks.two_clients import two_clients

__all__ = ["Augment", "DataTask", "Loss", "Model", "Quadratics", "Split", "Task"]
__all__ += ["from_arrays", "from_csv", "from_dataset", "from_flax", "from_pool", "from_torch"]
__all__ += ["linear", "lstm", "mlp", "model_named", "network", "transformer"]
__all__ += ["Adapt", "adapt", "adapted_paths", "merge_adapters"]
__all__ += ["load_params", "save_params"]
__all__ += ["params_from_flax", "params_from_torch", "params_to_flax", "params_to_torch"]
__all__ += ["cifar10", "cinic10", "digits", "fashion_mnist", "femnist", "mnist", "quadratics", "robust_regression"]
__all__ += ["synthetic_binary", "synthetic_leaf", "text", "two_clients"]
