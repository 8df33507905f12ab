"""A small network in JAX."""
