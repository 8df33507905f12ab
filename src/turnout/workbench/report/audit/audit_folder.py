"""The folder of an audit: the page, the numbers, the figure and the experiment; whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

from turnout.auditor import Audit
from turnout.files.whole import free_folder, whole_or_absent
from turnout.workbench.report.audit.audit_charts import effective_weights_figure, relabel_audit
from turnout.workbench.report.audit.audit_page import audit_page
from turnout.workbench.report.audit.audit_table import audit_summary
from turnout.workbench.report.page.on_paper import PIXELS


def save_audit(audit: Audit, out: str | Path, experiment: str, title: str = "") -> Path:
    """Write the page, `audit.json`, `clients.parquet`, `weights.png` and the experiment; whole or absent."""
    folder, shown = free_folder(out), relabel_audit(audit)
    with whole_or_absent(folder) as work:
        (work / "experiment.toml").write_text(experiment, encoding="utf-8")
        (work / "audit.json").write_text(json.dumps(audit_summary(audit), indent=2) + "\n", encoding="utf-8")
        audit.frame().write_parquet(work / "clients.parquet")
        effective_weights_figure(shown, title).save(work / "weights.png", scale_factor=PIXELS)
        (work / "audit.html").write_text(audit_page(shown, title, experiment), encoding="utf-8")
    return folder
