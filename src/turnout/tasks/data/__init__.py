"""Readers, checks and partitions: from files and arrays to the clients' samples."""
