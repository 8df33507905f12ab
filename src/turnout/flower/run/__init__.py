"""What a training on real nodes writes down: record, participation log and run folder."""
