"""The result of a check, as text and as JSON."""

import dataclasses
import json
from collections.abc import Sequence

OK, WARNING, FAILED = "ok", "warning", "failed"


@dataclasses.dataclass(frozen=True)
class Finding:
    """One check. `advice` is a sentence on what to do if it is not ok."""

    check: str
    state: str
    finding: str
    advice: str = ""


def ok(check: str, finding: str) -> Finding:
    return Finding(check, OK, finding)


def warning(check: str, finding: str, advice: str) -> Finding:
    return Finding(check, WARNING, finding, advice)


def failed(check: str, finding: str, advice: str) -> Finding:
    return Finding(check, FAILED, finding, advice)


def to_json(finding: Finding) -> str:
    return json.dumps(dataclasses.asdict(finding))


def to_table(findings: Sequence[Finding]) -> str:
    """One row per check, with the advice below it."""
    head = Finding("check", "", "finding")
    names = max(len(finding.check) for finding in (head, *findings))
    states = len(WARNING)
    lines = []
    for row in (head, *findings):
        lines.append(f"{row.check:{names}}  {row.state:{states}}  {row.finding}")
        if row.advice:
            lines.append(f"{'':{names}}  {'':{states}}  -> {row.advice}")
    return "\n".join(lines)


def conclusion(findings: Sequence[Finding]) -> str:
    failures = [finding.check for finding in findings if finding.state == FAILED]
    warnings = [finding.check for finding in findings if finding.state == WARNING]
    parts = [f"failed: {', '.join(failures)}" if failures else "nothing failed"]
    if warnings:
        parts.append(f"warnings: {', '.join(warnings)}")
    return "; ".join(parts)
