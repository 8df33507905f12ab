"""Files of a training on real nodes: record, participation log and run folder."""
