"""A benchmark that papers can quote: frozen worlds, rates and seeds, and the scores of the strategies that are here."""
