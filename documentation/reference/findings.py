"""What Coterie says of groups by itself: checks of groups, and findings of the pipeline."""

import inspect
from collections.abc import Mapping
from functools import partial

from coterie.client.group_description import SHARE_GROUP
from coterie.client.health.checks import CHECKS, NEED_JOURNAL, NEED_TWO_LOOKS, applies
from documentation.reference.tables import code, prose, table

_HEAD = """# Checks and findings of groups

## Checks

`coterie groups check` makes them ([commands](../command-line.md#checks-of-groups)).

"""
_FINDINGS = """## Findings

The pipeline makes them ([the pipeline](../pipeline.md#findings)).

"""
_SEVERITIES = "critical", "warning", "info"


def findings_page() -> str:
    """Return the page, made from the tables of checks and of rules."""
    # The pipeline needs packages that some tests of other pages do not have.
    from coterie.pipeline.findings.across import RULES

    abouts = {rule.name: rule.about for rule in RULES}
    checks = [
        (code(name), _about(check, abouts), _needs(name), _of_share_groups(name))
        for name, check in CHECKS.items()
    ]
    found = [
        (code(rule.name), rule.severity, prose(rule.about))
        for severity in _SEVERITIES
        for rule in RULES
        if rule.severity == severity
    ]
    return (
        _HEAD
        + table(("check", "what it finds", "needs", "share groups"), checks)
        + _FINDINGS
        + table(("finding", "severity", "meaning"), found)
    )


def _about(check: object, abouts: Mapping[str, str]) -> str:
    """Return what a check finds; some are rules of the pipeline."""
    if isinstance(check, partial):
        return prose(abouts[check.keywords["rule"]])
    return prose((inspect.getdoc(check) or "").partition("\n\n")[0])


def _needs(name: str) -> str:
    needs = {"two looks": name in NEED_TWO_LOOKS, "the journal": name in NEED_JOURNAL}
    return ", ".join(need for need, is_needed in needs.items() if is_needed)


def _of_share_groups(name: str) -> str:
    return "yes" if applies(name, SHARE_GROUP) else ""
