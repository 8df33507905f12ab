"""The mathematics behind the processes: draws of a given size, inclusion probabilities, transition matrices."""
