"""The settings of groups with which a check holds.

Conversations of groups are written for Kafka's default settings, above all for an initial delay of
3 s. A broker with other settings is no less right, so a check that does not hold with them must not
run. No file states this need, because a writer would forget it: the coordinator core runs the
conversation with the settings of the broker, and the check is left out if a response differs.

Invariants: the expectations stay those of the files; with Kafka's default settings nothing is left
out.
"""

from collections.abc import Mapping
from typing import Any

from coterie.conformance.commands import CONFIG_FIELDS, TYPE_PREFIXES, with_type_setting
from coterie.conformance.comparison import deviations
from coterie.conformance.core_broker import Output
from coterie.conformance.core_driver import CoreDriver
from coterie.conformance.transcript import Transcript
from coterie.conversation.syntax import TranscriptError
from coterie.coordinator.groups.config import GroupConfig

DELAY = "group.initial.rebalance.delay.ms"
_HEARTBEAT = "group.consumer.heartbeat.interval.ms"
DEFAULT_GROUP_SETTINGS = {
    DELAY: 3_000,
    "group.max.size": 2_147_483_647,
    "group.min.session.timeout.ms": 6_000,
    "group.max.session.timeout.ms": 1_800_000,
    "offset.metadata.max.bytes": 4_096,
    "group.consumer.assignment.interval.ms": 1_000,
    _HEARTBEAT: 5_000,
    "group.consumer.session.timeout.ms": 45_000,
    "group.consumer.max.size": 2_147_483_647,
    "group.share.assignment.interval.ms": 1_000,
    "group.share.heartbeat.interval.ms": 5_000,
    "group.share.session.timeout.ms": 45_000,
    "group.share.max.size": 200,
    "group.streams.assignment.interval.ms": 1_000,
    "group.streams.heartbeat.interval.ms": 5_000,
    "group.streams.initial.rebalance.delay.ms": 3_000,
    "group.streams.max.size": 2_147_483_647,
    "group.streams.num.standby.replicas": 0,
    "group.streams.session.timeout.ms": 45_000,
}
# A broker in real time is a little late. What holds with another delay must also hold if the delay
# is so much shorter or longer, as files leave half a second before a deadline.
_MARGIN_MS = 500


def setting_in_the_way(transcript: Transcript, settings: Mapping[str, str]) -> list[str]:
    """Return the names of the settings with which a conversation of groups does not hold.

    Args:
        transcript: the conversation.
        settings: those of the broker; one that is missing has Kafka's default.
    """
    others = {
        name: int(settings[name])
        for name, default in DEFAULT_GROUP_SETTINGS.items()
        if settings.get(name, "").isdigit() and int(settings[name]) != default
    }
    if not others or all(_holds(transcript, each) for each in _with_margins(others)):
        return []
    if not _holds(transcript, {}):
        # The core cannot run it. Whatever forms a group relies on the delay, and heartbeats of
        # consumer groups are answered with their interval.
        relied = [DELAY] if _forms_a_group(transcript) else []
        relied += [_HEARTBEAT] if "ConsumerGroupHeartbeat" in str(transcript) else []
        return [name for name in relied if name in others]
    alone = [
        name
        for name, value in others.items()
        if not all(_holds(transcript, each) for each in _with_margins({name: value}))
    ]
    return alone or list(others)


def _with_margins(settings: dict[str, int]) -> list[dict[str, int]]:
    delay_ms = settings.get(DELAY, 0)
    if not delay_ms:
        return [settings]
    delays_ms = (max(0, delay_ms - _MARGIN_MS), delay_ms, delay_ms + _MARGIN_MS)
    return [settings | {DELAY: each} for each in delays_ms]


def _holds(transcript: Transcript, settings: dict[str, int]) -> bool:
    """Return whether the core answers as expected with these settings."""
    classic: Any = {}
    for name, value in (DEFAULT_GROUP_SETTINGS | settings).items():
        if not name.startswith(TYPE_PREFIXES):
            classic[_field(name)] = value
    config = GroupConfig(**classic)
    for name, value in settings.items():
        if name.startswith(TYPE_PREFIXES):
            config = with_type_setting(config, name, str(value))
    driver = CoreDriver(config)
    try:
        actual = driver.run(transcript)
    except TranscriptError:
        return False
    return not any(
        deviations(block, [Output(lines)], driver.names, {})
        for block, lines in zip(transcript.blocks, actual, strict=True)
    )


def _field(setting: str) -> str:
    """Return the field of the core's settings."""
    return CONFIG_FIELDS.get(setting, setting.replace(".", "_"))


def _forms_a_group(transcript: Transcript) -> bool:
    return any(
        command.text.startswith("given ")
        for block in transcript.blocks
        for command in block.commands
    )
