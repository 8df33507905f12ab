"""The same rounds by PyTorch, measured on request, in an environment that need not hold this library.

    python benchmarks/performance.py --peers /path/to/an/environment/with/torch/bin/python

starts this file there and writes the names of workloads to it, one per line; every answer is a line with the seconds of
one round. So the contenders alternate, and a noisy machine is noisy for all.
"""

import sys
import time

import torch
from torch.nn import functional as F

CLIENTS, PRESENT, SAMPLES = 100, 50, 100
FEATURES, CLASSES, BATCH, RATE = 60, 10, 32, 0.05


def linear_data():
    return torch.randn(CLIENTS, SAMPLES, FEATURES), torch.randint(CLASSES, (CLIENTS, SAMPLES))


def linear_start():
    return [torch.zeros(CLASSES, FEATURES), torch.zeros(CLASSES)]


def image_data():
    return torch.rand(CLIENTS, SAMPLES, 1, 28, 28), torch.randint(CLASSES, (CLIENTS, SAMPLES))


def image_start():
    shapes = [(10, 1, 3, 3), (10,), (20, 10, 3, 3), (20,), (50, 980), (50,), (CLASSES, 50), (CLASSES,)]
    return [0.1 * torch.randn(shape) for shape in shapes]


def network(params, x):
    """Convolutions of 10 and 20 channels with dropout of 0.2, then 50 and 10 outputs."""
    x = F.relu(F.max_pool2d(F.conv2d(x, params[0], params[1], padding=1), 2))
    x = F.dropout(F.conv2d(x, params[2], params[3], padding=1), 0.2)
    x = F.relu(F.max_pool2d(x, 2)).flatten(1)
    return F.linear(F.relu(F.linear(x, params[4], params[5])), params[6], params[7])


def lean_round(start, data, present, steps, model):
    """No module, optimizer or loader: gradients and updates of plain tensors, client after client."""
    xs, ys = data
    total = [torch.zeros_like(value) for value in start]
    for client in torch.randperm(CLIENTS)[:present].tolist():
        params = [value.clone().requires_grad_() for value in start]
        for _ in range(steps):
            rows = torch.randint(SAMPLES, (BATCH,))
            loss = F.cross_entropy(model(params, xs[client, rows]), ys[client, rows])
            gradients = torch.autograd.grad(loss, params)
            with torch.no_grad():
                for value, gradient in zip(params, gradients, strict=True):
                    value -= RATE * gradient
        with torch.no_grad():
            for value, old, whole in zip(params, start, total, strict=True):
                whole += (value - old) / present
    for value, change in zip(start, total, strict=True):
        value += change


def usual_round(start, data, present, steps):
    """As most research code has it: one module and one optimizer per client."""
    xs, ys = data
    total = [torch.zeros_like(value) for value in start]
    for client in torch.randperm(CLIENTS)[:present].tolist():
        model = torch.nn.Linear(FEATURES, CLASSES)
        model.load_state_dict({"weight": start[0], "bias": start[1]})
        optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
        for _ in range(steps):
            rows = torch.randint(SAMPLES, (BATCH,))
            optimizer.zero_grad()
            F.cross_entropy(model(xs[client, rows]), ys[client, rows]).backward()
            optimizer.step()
        for whole, value, old in zip(total, model.parameters(), start, strict=True):
            whole += (value.detach() - old) / present
    for value, change in zip(start, total, strict=True):
        value += change


def mapped_round(start, data, present, steps):
    """All clients at once, by torch.func."""
    xs, ys = data

    def loss(params, x, y):
        return F.cross_entropy(F.linear(x, *params), y)

    gradients = torch.func.vmap(torch.func.grad(loss))
    clients = torch.randperm(CLIENTS)[:present]
    params = tuple(value.expand(present, *value.shape).clone() for value in start)
    for _ in range(steps):
        rows = torch.randint(SAMPLES, (present, BATCH))
        found = gradients(params, xs[clients[:, None], rows], ys[clients[:, None], rows])
        params = tuple(value - RATE * gradient for value, gradient in zip(params, found, strict=True))
    for value, after in zip(start, params, strict=True):
        value += (after - value).mean(0)


def contenders():
    flat, images = linear_data(), image_data()
    weights, kernels = linear_start(), image_start()
    return {
        "W1 usual": lambda: usual_round(weights, flat, PRESENT, 5),
        "W1 lean": lambda: lean_round(weights, flat, PRESENT, 5, lambda params, x: F.linear(x, *params)),
        "W1 vmap": lambda: mapped_round(weights, flat, PRESENT, 5),
        "W2 lean": lambda: lean_round(kernels, images, 10, 10, network),
    }


def main():
    rounds = contenders()
    for name in rounds:
        rounds[name]()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads: {', '.join(rounds)}", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        rounds[line.strip()]()
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main()
