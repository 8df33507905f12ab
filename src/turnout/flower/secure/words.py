"""What server and clients say to each other about a secure sum, by the names of both ends."""

from __future__ import annotations

KEYS, SHARES, UNMASK = "query.keys", "query.shares", "query.unmask"  # before and after the training
SUM = "turnout.sum"  # record of what is said about a sum, in every message of a secure round
MASKED = "turnout.masked"  # record of the one array that is sent in place of an update, under masks
VALUES, NUMBERS = "turnout.values", "turnout.told"  # of an answer that still lies on the node
WANTED = "turnout.secure"  # in the config of a greeting: the server trains by secure sums
TAG, ROUND, RUN, BOXES, GROUP, THRESHOLD = "tag", "round", "run", "boxes", "group", "threshold"
ARRIVED, GONE, TOLD, FORGOTTEN, LEAVING = "arrived", "gone", "told", "forgotten", "leaving"
ENTRIES, QUANTUM, MOST, METRICS = "entries", "quantum", "most", "metrics"

BOX_BYTES = 12 + 2 * 17 + 16  # nonce, two shares, and the tag of the cipher
KEY_LENGTHS = (32, 32, 32)


def tag_of(run: str, t: int) -> str:
    """Binds all that is secret to a run and a round."""
    return f"{run}|{t}"
