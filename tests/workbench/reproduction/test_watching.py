import numpy as np

from turnout.workbench.reproduction.procedures.watching import watching


def test_longer_watching_knows_better():
    curves = watching(past=[10, 1000], num_clients=20, seeds=2)
    assert [(curve.panel, curve.label) for curve in curves] == [
        ("both classes", "π"),
        ("both classes", "λ"),
        ("three groups", "π"),
        ("three groups", "λ"),
    ]
    for curve in curves:
        assert curve.x.tolist() == [10, 1000]
        assert (curve.values[:, 1] < curve.values[:, 0]).all()
    assert (np.stack([curve.values[:, 0] for curve in curves[1::2]]) > 0.15).all()  # λ is hardly known after ten rounds
