import pytest


def pytest_itemcollected(item):
    """Mark every test of this folder: most need Flower, which `make test` does not install."""
    item.add_marker(pytest.mark.flower)
