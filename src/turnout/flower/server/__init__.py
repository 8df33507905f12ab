"""The server for real nodes: the pure server driven round by round, and its checkpoints."""
