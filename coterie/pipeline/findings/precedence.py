"""Of findings that have the same cause, the one that explains more is kept
[pipeline/one-finding-a-cause].
"""

from collections.abc import Sequence

from coterie.pipeline.findings.bursts import BURST_MS
from coterie.pipeline.findings.changes import MINUTE_MS
from coterie.pipeline.findings.finding import Finding
from coterie.pipeline.findings.outages import RESTART, RETURN_MS

# Groups that rebalance within a minute of each other have one cause: a member expires after 45 s
# by default, and notices a rebalance with its next heartbeat.
TOGETHER_MS = MINUTE_MS

# By rule the rules whose findings have the same cause at the same time.
_EXPLAINS = {
    "rebalance_storm": ("flapping_member", "unsettled_epochs"),
    "group_about_to_expire": ("empty_group_with_lag",),
    "expired_member": ("passed_stall", "held_back_partition", "late_takeover"),
    "max_poll_exceeded": ("passed_stall", "held_back_partition", "late_takeover"),
    "flapping_member": ("unsettled_epochs",),
    # Of a share group: while a record comes back, others are processed behind it.
    "near_delivery_limit": ("start_offset_stands", "stalled_partition", "passed_stall"),
    "start_offset_stands": ("stalled_partition", "passed_stall"),
}
# What is said of one member is explained only by what is said of the same one.
_OF_ONE_MEMBER = ("held_back_partition", "late_takeover", "unsettled_epochs")
# What happened to many groups explains these in its groups. A storm or flapping member with a
# culprit is never among them.
_BY_RESTART = ("deployment", "rebalance_storm", "passed_stall", "unsettled_epochs")
_BY_ROLLOUT = ("deployment", "rebalance_storm", "static_restart")
# What an outage explains in every group at that time: nobody can commit, leave or send heartbeats.
_BY_OUTAGE = (
    "expired_member", "max_poll_exceeded", "static_restart", "held_back_partition", "late_takeover",
)  # fmt: skip


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
    """Return whether a finding names the member of another, if it has to."""
    if other.rule != "rebalance_storm" and finding.rule not in _OF_ONE_MEMBER:
        return True
    if finding.subject is None:
        return other.rule == "rebalance_storm"
    return finding.subject == other.subject or finding.subject in other.evidence


def covers(finding: Finding, group_id: str, from_ms: int, to_ms: int) -> bool:
    """Return whether a finding across groups is about a group and a time."""
    is_within = finding.from_ms <= from_ms and to_ms <= finding.to_ms + TOGETHER_MS
    return group_id in finding.groups and is_within


def is_explained_across(finding: Finding, across: Sequence[Finding]) -> bool:
    """Return whether a finding about a group is part of what happened to many groups.

    Args:
        finding: a finding.
        across: restarts and rollouts.
    """
    if finding.group_id is None:
        return False
    if finding.rule == "rebalance_storm" and finding.subject is not None:
        # A member of its own caused half of it.
        return False
    return any(
        _explains_rebalances(other, finding, finding.group_id)
        or (other.rule == RESTART.name and _explains_member(other, finding))
        for other in across
    )


def _explains_rebalances(other: Finding, finding: Finding, group_id: str) -> bool:
    if finding.rule not in (_BY_RESTART if other.rule == RESTART.name else _BY_ROLLOUT):
        return False
    if covers(other, group_id, finding.from_ms, finding.to_ms):
        return True
    # A deployment just before or after an outage is one burst with it, and only together a storm.
    return (
        other.lost_until_ms is not None
        and finding.rule == "rebalance_storm"
        and group_id in other.groups
        and other.from_ms - BURST_MS <= finding.from_ms <= other.to_ms
        and other.from_ms <= finding.to_ms <= other.to_ms + BURST_MS
    )


def _explains_member(other: Finding, finding: Finding) -> bool:
    """Return whether what is said of members is part of an outage, or of what else is a restart."""
    if finding.rule not in _BY_OUTAGE or finding.to_ms < other.from_ms:
        return False
    if other.lost_until_ms is None:
        return finding.to_ms <= other.to_ms + TOGETHER_MS
    # Static members restart nothing by coming back, so they do not begin before.
    comes_ms = RETURN_MS if finding.rule == "static_restart" else 0
    return finding.from_ms <= other.lost_until_ms + comes_ms
