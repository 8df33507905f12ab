"""Experiments: TOML to objects, runs and run folders."""
