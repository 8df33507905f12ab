"""Recordings of real phones, and recorded time cut into slots."""
