"""The client's side of uploads: what it sends in place of a model, and what it remembers of that."""
