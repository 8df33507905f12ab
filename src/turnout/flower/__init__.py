"""Strategies on real nodes, through Flower; only `strategy` and `client` need the extra `flower`."""
