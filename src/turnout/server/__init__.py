"""The server's side of one round, what it knows of its clients, and its settings."""
