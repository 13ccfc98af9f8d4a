"""Findings of one group that have the same cause: the one that explains more is kept
[pipeline/one-finding-a-cause].
"""

from collections.abc import Sequence

from coterie.pipeline.findings.finding import Finding

# By rule the rules whose findings have the same cause at the same time.
_EXPLAINS = {
    "rebalance_storm": ("flapping_member",),
    "group_about_to_expire": ("empty_group_with_lag",),
    "expired_member": ("passed_stall",),
    "max_poll_exceeded": ("passed_stall",),
}


def without_explained(found: Sequence[Finding]) -> list[Finding]:
    """Return findings of one group without those that another one explains."""
    return [each for each in found if not _is_explained(each, found)]


def _is_explained(finding: Finding, others: Sequence[Finding]) -> bool:
    return any(
        finding.rule in _EXPLAINS.get(other.rule, ())
        and _names(other, finding)
        and other.from_ms <= finding.to_ms
        and finding.from_ms <= other.to_ms
        for other in others
    )


def _names(other: Finding, finding: Finding) -> bool:
    """Return whether a storm names a flapping member; other findings need not name any."""
    if other.rule != "rebalance_storm" or finding.subject is None:
        return True
    return finding.subject == other.subject or finding.subject in other.evidence
