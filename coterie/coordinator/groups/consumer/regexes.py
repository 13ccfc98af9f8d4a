"""Regular expressions of a group: when they are matched with the topics, and how.

Matching many names takes long, so it is done in parts, between which other requests are handled. A
timer that is due at once starts each part. The result is an operation of its own
[consumer-groups/regex].
"""

from collections.abc import Callable
from typing import NamedTuple

from coterie.coordinator.groups.consumer.epochs import bump_epoch
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.groups.epochs import Bump
from coterie.coordinator.groups.metadata_hash import metadata_hash
from coterie.coordinator.kernel.append import Pair
from coterie.coordinator.patterns import Pattern
from coterie.protocol.messages.consumer_group_facts import RegexResolved
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from coterie.protocol.messages.journal_records import MAX_REASON_LENGTH
from coterie.protocol.messages.log_records import encode_key, encode_value

# The least time between two resolutions of a group, as in Kafka.
MIN_REFRESH_MS = 10_000
# How much is matched in one part: names times instructions of the patterns. With usual patterns
# these are some hundred names and about five milliseconds.
_MATCHED_TOGETHER = 10_000
# How many names that matched are encoded in one part: some five milliseconds.
_ENCODED_TOGETHER = 30_000


class Match(NamedTuple):
    """What a regular expression matches.

    Attributes:
        topics: the names.
        value: they as they are logged.
        encoded: key and value as bytes.
    """

    topics: frozenset[str]
    value: ConsumerGroupRegularExpressionValue
    encoded: Pair


class Resolution:
    """The matching of the regular expressions of a group, as far as it has come.

    Attributes:
        version: the version of the topics when it began.
        matches: what each regular expression matches, as far as it is encoded.
    """

    __slots__ = ("_at", "_found", "_group_id", "_names", "_patterns", "matches", "version")

    def __init__(self, group_id: str, regexes: list[str], names: list[str], version: int) -> None:
        """Begin to match some regular expressions of a group with the names of all topics."""
        assert version >= 0, "topics have a version"
        self.version = version
        self.matches: dict[str, Match] = {}
        self._group_id = group_id
        # What is matched so far, and not encoded.
        self._found: dict[str, list[str]] = {regex: [] for regex in regexes}
        self._patterns: list[tuple[str, Pattern]] = [(each, Pattern(each)) for each in regexes]
        self._names = names
        self._at = 0

    def keep(self, may_match: Callable[[str], bool]) -> None:
        """Leave out names that must not be matched; nothing was matched before."""
        assert not self._at, "names are left out before the first is matched"
        self._names = [name for name in self._names if may_match(name)]

    def go_on(self, now_ms: int) -> bool:
        """Match some names, or encode some that match; return whether nothing is left to do.

        Args:
            now_ms: the time, which is logged.
        """
        if self._at < len(self._names):
            self._match()
            if self._at < len(self._names):
                return False
            if sum(map(len, self._found.values())) > _ENCODED_TOGETHER:
                return False
        assert len(self.matches) < len(self._patterns), "a resolution ends once"
        self._encode(now_ms)
        return not self._found

    def _match(self) -> None:
        assert self._patterns, "there is something to match"
        count = max(1, _MATCHED_TOGETHER // sum(pattern.states for _, pattern in self._patterns))
        for name in self._names[self._at : self._at + count]:
            for regex, pattern in self._patterns:
                if pattern.matches(name):
                    self._found[regex].append(name)
        self._at += count

    def _encode(self, now_ms: int) -> None:
        assert self._at >= len(self._names), "names are encoded when all are matched"
        left = _ENCODED_TOGETHER
        while self._found and left > 0:
            regex = next(iter(self._found))
            names = self._found.pop(regex)
            value = ConsumerGroupRegularExpressionValue(
                topics=names, version=self.version, timestamp=now_ms
            )
            encoded = encode_key(_key(self._group_id, regex)), encode_value(value)
            self.matches[regex] = Match(frozenset(names), value, encoded)
            left -= 1 + len(names)


def _key(group_id: str, regex: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex)


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
        regexes, names = list(group.by_regex), sorted(topics.by_name)
        group.resolution = Resolution(group.group_id, regexes, names, topics.version)
        step.arm(TimerKind.REGEX, "", now_ms)


def resolve_some(step: Step) -> None:
    """Match some names, or encode some, and write the result after the last one."""
    group, now_ms = step.group, step.now_ms
    resolution: Resolution | None = group.resolution
    if resolution is None:
        return
    if not resolution.go_on(now_ms):
        step.arm(TimerKind.REGEX, "", now_ms)
        return
    assert resolution.version <= group.topics.version, "the version of the topics ascends"
    group.resolution = None
    changed = False
    for regex, match in resolution.matches.items():
        if regex not in group.by_regex:
            continue
        before = group.regexes.get(regex)
        topics = frozenset() if before is None else before.topics
        if topics != match.topics:
            changed = True
            common = len(topics & match.topics)
            step.facts.append(
                RegexResolved(
                    at_ms=step.now_ms,
                    regex=regex[:MAX_REASON_LENGTH],
                    topic_count=len(match.topics),
                    gained=len(match.topics) - common,
                    lost=len(topics) - common,
                )
            )
        step.set(_key(group.group_id, regex), match.value, match.encoded)
    if changed or metadata_hash(group.subscribed_topics(), group.topics) != group.metadata_hash:
        bump_epoch(step, Bump.REGEX_RESOLVED)
    if step.fits():
        group.resolved_version = resolution.version
    else:
        # It is dropped. The next one may be smaller, and takes as long.
        group.too_large_ms = now_ms
