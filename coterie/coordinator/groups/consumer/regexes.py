"""Regular expressions of a group: when they are matched with the topics, and how.

Matching many names takes long, so it is done in parts, between which other requests are handled. A
timer that is due at once starts each part. The result is an operation of its own
[consumer-groups/regex].
"""

from coterie.coordinator.groups.consumer.epochs import bump_epoch
from coterie.coordinator.groups.consumer.metadata_hash import metadata_hash
from coterie.coordinator.groups.consumer.step import Step
from coterie.coordinator.groups.consumer.timers import TimerKind
from coterie.coordinator.regular_expressions import Pattern, compiled
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)

# The least time between two resolutions of a group, as in Kafka.
MIN_REFRESH_MS = 10_000
# Names that are matched in one part: about five milliseconds.
_NAMES_TOGETHER = 500


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
        self._patterns: list[tuple[str, Pattern]] = [(each, compiled(each)) for each in regexes]
        self._names = names
        self._at = 0

    def go_on(self) -> bool:
        """Match some names; return whether all are matched."""
        count = max(1, _NAMES_TOGETHER // len(self._patterns))
        for name in self._names[self._at : self._at + count]:
            for regex, pattern in self._patterns:
                if pattern.matches(name):
                    self.found[regex].append(name)
        self._at += count
        return self._at >= len(self._names)


def ask_for_resolution(step: Step, *, is_new: bool) -> None:
    """Begin to match the regular expressions of a group if that is due.

    Args:
        step: a step of the heartbeat of a member.
        is_new: whether the heartbeat has brought a regular expression that nobody had.
    """
    group, now_ms = step.group, step.now_ms
    if not group.by_regex or group.resolution is not None:
        return
    times = [each.value.timestamp for each in group.regexes.values()]
    if now_ms <= max([*times, group.too_large_ms]) + MIN_REFRESH_MS:
        return
    refresh_ms = step.partition.config.consumer.regex_refresh_interval_ms
    resolved, topics = group.resolved_version, group.topics
    if (
        is_new
        or len(group.by_regex) != len(group.regexes)
        or resolved is None
        or resolved < topics.created_version
        or now_ms > max(times) + refresh_ms
    ):
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
    group.resolution = None
    changed = False
    for regex, names in resolution.found.items():
        if regex not in group.by_regex:
            continue
        before = group.regexes.get(regex)
        changed = changed or (frozenset() if before is None else before.topics) != frozenset(names)
        step.set(
            ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=regex),
            ConsumerGroupRegularExpressionValue(
                topics=names, version=resolution.version, timestamp=now_ms
            ),
        )
    hashed = metadata_hash(group.subscribed_topics(), group.topics)
    if changed or hashed != group.metadata_hash:
        bump_epoch(step)
    if step.fits():
        group.resolved_version = resolution.version
    else:
        # It is dropped. The next one may be smaller, and takes as long.
        group.too_large_ms = now_ms
