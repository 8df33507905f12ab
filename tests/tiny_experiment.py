"""The tables of a tiny experiment that everything can be tried on."""

TINY = {
    "title": "Tiny",
    "rounds": 4,
    "seeds": 2,
    "task": {"name": "quadratics", "num_clients": 5, "dimension": 2},
    "availability": {"name": "two_classes"},
    "local": {"steps": 2, "learning_rate": 0.1},
    "strategies": [{"name": "fedavg", "cohort": [2, 3]}, {"name": "unbiased"}],
}
