"""What a participation log says about a fleet."""
