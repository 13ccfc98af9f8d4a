"""Regular expressions of a group: when they are matched with the topics, and how.

Matching many names takes long, so it is done in parts, between which other requests are handled. A
timer that is due at once starts each part. The result is an operation of its own
[consumer-groups/regex].
"""

from collections.abc import Callable
from typing import NamedTuple

from coterie.coordinator.groups.consumer.epochs import Bump, bump_epoch
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.metadata_hash import metadata_hash
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.patterns import Pattern
from coterie.protocol.messages.consumer_group_facts import RegexResolved
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.protocol.messages.journal_records import MAX_REASON_LENGTH

# The least time between two resolutions of a group, as in Kafka.
MIN_REFRESH_MS = 10_000
# How much is matched in one part: names times instructions of the patterns. With usual patterns
# these are some hundred names and about five milliseconds.
_MATCHED_TOGETHER = 10_000


class Resolution:
    """The matching of the regular expressions of a group, as far as it has come.

    Attributes:
        version: the version of the topics when it began.
        found: what each regular expression has matched so far.
    """

    __slots__ = ("_at", "_names", "_patterns", "found", "version")

    def __init__(self, regexes: list[str], names: list[str], version: int) -> None:
        """Begin to match some regular expressions with the names of all topics."""
        self.version = version
        self.found: dict[str, list[str]] = {regex: [] for regex in regexes}
        self._patterns: list[tuple[str, Pattern]] = [(each, Pattern(each)) for each in regexes]
        self._names = names
        self._at = 0

    def keep(self, may_match: Callable[[str], bool]) -> None:
        """Leave out names that must not be matched; nothing was matched before."""
        assert not self._at, "names are left out before the first is matched"
        self._names = [name for name in self._names if may_match(name)]

    def go_on(self) -> bool:
        """Match some names; return whether all are matched."""
        assert self._patterns, "there is something to match"
        assert not self._at or self._at < len(self._names), "a resolution ends once"
        count = max(1, _MATCHED_TOGETHER // sum(pattern.states for _, pattern in self._patterns))
        for name in self._names[self._at : self._at + count]:
            for regex, pattern in self._patterns:
                if pattern.matches(name):
                    self.found[regex].append(name)
        self._at += count
        return self._at >= len(self._names)


class Resolved(NamedTuple):
    """What is resolved when a heartbeat comes, before it has changed anything.

    Attributes:
        latest_ms: when the latest resolution ended; None if nothing is resolved.
        is_complete: whether each regular expression of the group is resolved.
    """

    latest_ms: int | None
    is_complete: bool


# What is resolved of a group without regular expressions.
_NOTHING = Resolved(None, is_complete=True)


def resolved(group: ConsumerGroup) -> Resolved:
    """Return what is resolved of the regular expressions of a group."""
    if not group.by_regex and not group.regexes:
        return _NOTHING
    return Resolved(group.resolved_ms(), len(group.by_regex) == len(group.regexes))


def ask_for_resolution(step: Step, before: Resolved, *, is_new: bool) -> None:
    """Begin to match the regular expressions of a group if that is due.

    Args:
        step: a step of the heartbeat of a member.
        before: what was resolved before the heartbeat.
        is_new: whether the heartbeat has brought a regular expression that nobody had.
    """
    group, now_ms, latest_ms = step.group, step.now_ms, before.latest_ms
    if not group.by_regex or group.resolution is not None:
        return
    latest_ms = max(latest_ms or 0, group.too_large_ms)
    if latest_ms and now_ms <= latest_ms + MIN_REFRESH_MS:
        return
    refresh_ms = step.partition.config.consumer.regex_refresh_interval_ms
    version, topics = group.resolved_version, group.topics
    if (
        is_new
        or not before.is_complete
        or version is None
        or version < topics.created_version
        or now_ms > latest_ms + refresh_ms
    ):
        assert topics.created_version <= topics.version, "a creation is a change of the topics"
        group.resolution = Resolution(list(group.by_regex), sorted(topics.by_name), topics.version)
        step.arm(TimerKind.REGEX, "", now_ms)


def resolve_some(step: Step) -> None:
    """Match some names, and write the result after the last one."""
    group, now_ms = step.group, step.now_ms
    resolution: Resolution | None = group.resolution
    if resolution is None:
        return
    if not resolution.go_on():
        step.arm(TimerKind.REGEX, "", now_ms)
        return
    assert resolution.version <= group.topics.version, "the version of the topics ascends"
    group.resolution = None
    changed = False
    for regex, names in resolution.found.items():
        if regex not in group.by_regex:
            continue
        before = group.regexes.get(regex)
        topics = frozenset() if before is None else before.topics
        if topics != frozenset(names):
            changed = True
            step.facts.append(
                RegexResolved(
                    at_ms=step.now_ms,
                    regex=regex[:MAX_REASON_LENGTH],
                    topic_count=len(names),
                    gained=len(frozenset(names) - topics),
                    lost=len(topics - frozenset(names)),
                )
            )
        step.set(
            ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=regex),
            ConsumerGroupRegularExpressionValue(
                topics=names, version=resolution.version, timestamp=now_ms
            ),
        )
    if changed or metadata_hash(group.subscribed_topics(), group.topics) != group.metadata_hash:
        bump_epoch(step, Bump.REGEX_RESOLVED)
    if step.fits():
        group.resolved_version = resolution.version
    else:
        # It is dropped. The next one may be smaller, and takes as long.
        group.too_large_ms = now_ms
