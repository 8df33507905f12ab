"""Diagnoses: page, charts, table and words."""
