"""The server's decisions played alone: which clients a strategy trains for."""

from turnout.auditor.auditing import Audit, Audited, audit, audit_trials, effective_weights
from turnout.auditor.exact import exact_weights

__all__ = ["Audit", "Audited", "audit", "audit_trials", "effective_weights", "exact_weights"]
