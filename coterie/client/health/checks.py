"""The table of all checks, by the name that findings and `--ignore` have."""

from collections.abc import Callable, Container, Iterator
from typing import NamedTuple

from coterie.client.group_description import SHARE_GROUP
from coterie.client.health import epochs, history, members, offsets, shares, tasks
from coterie.client.health.finding import Finding, Severity
from coterie.client.health.observation import Observation

Check = Callable[[Observation], Iterator[Finding]]

CHECKS: dict[str, Check] = {
    "stuck-rebalance": members.stuck_rebalance,
    "topology-not-ready": tasks.topology_not_ready,
    "held-back-partitions": epochs.held_back_partitions,
    "held-back-tasks": tasks.held_back_tasks,
    "stale-epoch": epochs.stale_epoch,
    "target-not-computed": epochs.target_not_computed,
    "no-members": offsets.no_members,
    "unassigned-partitions": members.unassigned_partitions,
    "assigned-twice": members.assigned_twice,
    "assigned-missing-partitions": members.assigned_missing_partitions,
    "no-leader": offsets.no_leader,
    "not-committing": offsets.not_committing,
    "lag-grows": offsets.lag_grows,
    "offset-out-of-range": offsets.offset_out_of_range,
    "never-committed": offsets.never_committed,
    "missing-topics": members.missing_topics,
    "empty-subscription": epochs.empty_subscription,
    "pattern-without-topics": epochs.pattern_without_topics,
    "unequal-subscriptions": members.unequal_subscriptions,
    "mixed-clients": members.mixed_clients,
    "unequal-topologies": tasks.unequal_topologies,
    "idle-members": members.idle_members,
    "members-without-tasks": tasks.members_without_tasks,
    "uneven-assignment": members.uneven_assignment,
    "deleted-topics": offsets.deleted_topics,
    "unsubscribed-offsets": offsets.unsubscribed_offsets,
    "missing-static-members": history.missing_static_members,
    "fenced-members": history.fenced_members,
    "rebalance-storm": history.rebalance_storm,
    "broker-restart": history.broker_restart,
    "max-poll-exceeded": history.max_poll_exceeded,
    "expired-member": history.expired_member,
    "flapping-member": history.flapping_member,
    "unsettled-epochs": history.unsettled_epochs,
    "unequal-assignors": history.unequal_assignors,
    "not-processing": shares.not_processing,
    "no-share-state": shares.no_share_state,
    "poison-records": shares.poison_records,
    "near-delivery-limit": shares.near_delivery_limit,
    "expired-locks": shares.expired_locks,
    "start-offset-stands": shares.start_offset_stands,
}

# What is said of deliveries, and what else applies to share groups; nothing else does.
NEED_SHARE_STATE = ("poison-records", "near-delivery-limit", "expired-locks", "start-offset-stands")
_OF_SHARE_GROUPS = (
    "not-processing", "no-share-state", *NEED_SHARE_STATE,
)  # fmt: skip
_ALSO_OF_SHARE_GROUPS = (
    "no-members", "no-leader", "lag-grows", "assigned-missing-partitions", "deleted-topics",
    "broker-restart", "expired-member", "flapping-member",
)  # fmt: skip

# What can't be found with one look, and what can't be found without a journal.
NEED_TWO_LOOKS = (
    "not-committing", "lag-grows", "stale-epoch", "target-not-computed", "not-processing",
    "no-share-state",
)  # fmt: skip
NEED_JOURNAL = (
    "missing-static-members",
    "fenced-members",
    "rebalance-storm",
    "broker-restart",
    "max-poll-exceeded",
    "expired-member",
    "flapping-member",
    "unsettled-epochs",
    "unequal-assignors",
)

_ORDER = list(Severity)


class Found(NamedTuple):
    """A finding about a group, with the name of the check."""

    group_id: str
    check: str
    finding: Finding

    def row(self) -> dict[str, str | None]:
        """Return it as `groups check --json` and the console have it."""
        return {
            "group": self.group_id,
            "severity": str(self.finding.severity),
            "check": self.check,
            "subject": self.finding.subject or None,
            "cause": self.finding.cause,
            "remedy": self.finding.remedy,
        }


def applies(name: str, group_type: str) -> bool:
    """Return whether groups of a type have such a check."""
    if group_type == SHARE_GROUP:
        return name in _OF_SHARE_GROUPS or name in _ALSO_OF_SHARE_GROUPS
    return name not in _OF_SHARE_GROUPS


def findings(seen: Observation, ignored: Container[str] = ()) -> list[Found]:
    """Return the findings about a group, errors first, without those of ignored checks."""
    found = [
        Found(seen.group_id, name, each)
        for name, check in CHECKS.items()
        if name not in ignored and applies(name, seen.group.type)
        for each in check(seen)
    ]
    return sorted(found, key=lambda each: _ORDER.index(each.finding.severity))
