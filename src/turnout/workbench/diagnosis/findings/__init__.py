"""What a log shows, one finding per file."""
