"""Runs: page, charts, figures, table and words."""
