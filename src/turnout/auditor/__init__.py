"""The server's decisions played alone: which clients a strategy trains for."""

from turnout.auditor.auditing import audit, audit_trials, effective_weights
from turnout.auditor.exact import exact_weights
from turnout.auditor.results import Audit, Audited

__all__ = ["Audit", "Audited", "audit", "audit_trials", "effective_weights", "exact_weights"]
