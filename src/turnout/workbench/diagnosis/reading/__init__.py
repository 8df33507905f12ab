"""From a file to a participation log."""
