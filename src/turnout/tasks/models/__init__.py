"""Models as pairs of pure functions: layers, networks and losses."""
