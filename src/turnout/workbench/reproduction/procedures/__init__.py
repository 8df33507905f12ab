"""Claims that take no training: one procedure per file, named as the file; each returns curves."""
