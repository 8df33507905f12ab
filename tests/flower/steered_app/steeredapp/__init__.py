"""An app for tests of steered strategies on real nodes."""
