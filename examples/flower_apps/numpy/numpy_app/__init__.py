"""Logistic regression in NumPy."""
