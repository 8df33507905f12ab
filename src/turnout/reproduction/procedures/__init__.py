"""Claims that take no training: one procedure a file, named as the file, which returns curves."""
