"""The world that is fitted to a log, and how like the log it is."""
