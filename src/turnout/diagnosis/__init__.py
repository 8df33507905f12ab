"""What a participation log tells about a fleet."""
