"""An app for tests with faults."""
