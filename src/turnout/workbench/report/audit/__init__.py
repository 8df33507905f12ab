"""Audits: page, figure, table and words."""
