"""How often each transition, timer, cause, response and completion occurred in the simulation.

A part of the core that no run exercises is not tested, so a long campaign must see all of REQUIRED.
"""

from collections import Counter

from coterie.coordinator.groups.classic.members import Removal
from coterie.coordinator.groups.classic.rebalance import Cause
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.protocol.errors import ErrorCode as E

# No simulated client sends an assignment of a megabyte. No client can ask for a rebalance without
# rejoining; tests/live/testing does. Consumer groups have a simulation of their own.
_NOT_BY_CLIENTS = (
    Cause.LARGE_ASSIGNMENT,
    Cause.LATE_ASSIGNMENT,
    Cause.REQUEST,
    Cause.DOWNGRADE,
)

# What must occur in a long campaign, by subject.
REQUIRED: dict[str, tuple[str, ...]] = {
    "transition": (
        "Empty -> PreparingRebalance",
        "Stable -> PreparingRebalance",
        "CompletingRebalance -> PreparingRebalance",
        "PreparingRebalance -> CompletingRebalance",
        "PreparingRebalance -> Empty",
        "CompletingRebalance -> Stable",
        "Empty -> Dead",
        "PreparingRebalance -> Dead",
        "CompletingRebalance -> Dead",
        "Stable -> Dead",
    ),
    "timer": tuple(kind.value for kind in TimerKind),
    "cause": tuple(cause.value for cause in Cause if cause not in _NOT_BY_CLIENTS),
    "removed": tuple(cause.value for cause in Removal),
    "event": (
        "join_phase_extended",
        "pending_member_expired",
        "member_fenced",
        "static_member_replaced",
        "offsets_expired",
        "group_expired",
        "group_deleted",
    ),
    "JoinGroup": tuple(
        error.name
        for error in (
            E.NONE,
            E.UNKNOWN_SERVER_ERROR,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.COORDINATOR_NOT_AVAILABLE,
            E.NOT_COORDINATOR,
            E.INCONSISTENT_GROUP_PROTOCOL,
            E.INVALID_GROUP_ID,
            E.UNKNOWN_MEMBER_ID,
            E.INVALID_SESSION_TIMEOUT,
            E.MEMBER_ID_REQUIRED,
            E.GROUP_MAX_SIZE_REACHED,
            E.FENCED_INSTANCE_ID,
        )
    ),
    "SyncGroup": tuple(
        error.name
        for error in (
            E.NONE,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.COORDINATOR_NOT_AVAILABLE,
            E.NOT_COORDINATOR,
            E.ILLEGAL_GENERATION,
            E.INCONSISTENT_GROUP_PROTOCOL,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
            E.FENCED_INSTANCE_ID,
        )
    ),
    "Heartbeat": tuple(
        error.name
        for error in (
            E.NONE,
            E.NOT_COORDINATOR,
            E.ILLEGAL_GENERATION,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
            E.FENCED_INSTANCE_ID,
        )
    ),
    "LeaveGroup": tuple(
        error.name
        for error in (E.NONE, E.NOT_COORDINATOR, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID)
    ),
    "OffsetCommit": tuple(
        error.name
        for error in (
            E.NONE,
            E.OFFSET_METADATA_TOO_LARGE,
            E.COORDINATOR_LOAD_IN_PROGRESS,
            E.COORDINATOR_NOT_AVAILABLE,
            E.NOT_COORDINATOR,
            E.ILLEGAL_GENERATION,
            E.UNKNOWN_MEMBER_ID,
            E.REBALANCE_IN_PROGRESS,
            E.FENCED_INSTANCE_ID,
            E.GROUP_ID_NOT_FOUND,
        )
    ),
    "OffsetFetch": tuple(
        error.name for error in (E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS, E.NOT_COORDINATOR)
    ),
    "OffsetDelete": tuple(
        error.name
        for error in (
            E.NONE,
            E.GROUP_ID_NOT_FOUND,
            E.NON_EMPTY_GROUP,
            E.GROUP_SUBSCRIBED_TO_TOPIC,
            E.NOT_COORDINATOR,
        )
    ),
    "DeleteGroups": tuple(
        error.name for error in (E.NONE, E.GROUP_ID_NOT_FOUND, E.NON_EMPTY_GROUP, E.NOT_COORDINATOR)
    ),
    "DescribeGroups": tuple(
        error.name for error in (E.NONE, E.GROUP_ID_NOT_FOUND, E.NOT_COORDINATOR)
    ),
    "ListGroups": tuple(error.name for error in (E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS)),
    "log": ("acknowledged", "failed", "restart", "torn restart", "move", "compaction"),
    "completion": ("all joined", "join timer", "initial delay", "initial delay extended"),
}


class Coverage:
    """Counters by subject and name."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {}

    def count(self, subject: str, name: str, by: int = 1) -> None:
        """Count an occurrence."""
        self.counts.setdefault(subject, Counter())[name] += by

    def get(self, subject: str, name: str) -> int:
        """Return how often something occurred."""
        return self.counts.get(subject, Counter())[name]

    def add(self, other: "Coverage") -> None:
        """Add the counts of another run."""
        for subject, counts in other.counts.items():
            self.counts.setdefault(subject, Counter()).update(counts)

    def missing(self) -> list[str]:
        """Return what is required and never occurred."""
        return [
            f"{subject}: {name}"
            for subject, names in REQUIRED.items()
            for name in names
            if not self.get(subject, name)
        ]

    def rows(self) -> list[str]:
        """Return a printable line per subject."""
        return [
            f"{subject:<14}" + "  ".join(f"{name} {counts[name]:,}" for name in sorted(counts))
            for subject, counts in sorted(self.counts.items())
        ]
