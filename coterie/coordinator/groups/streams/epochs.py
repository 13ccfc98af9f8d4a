"""What raises the epoch of a streams group [streams-groups/epoch-bumps]."""

from coterie.coordinator.groups.epochs import Bump, Instigator, instigator_of
from coterie.coordinator.groups.recorded.epochs import topics_hash, write_epoch
from coterie.coordinator.groups.streams.group import NOT_VALIDATED
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.step import Step
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupMetadataValue,
    StreamsKeyValue,
)

# The setting of the assignment that is logged with the epoch.
_STANDBY_REPLICAS = "num.standby.replicas"


def look_at_topics(step: Step) -> int:
    """Return the hash of the topics of a group; those that have changed make it another one.

    The tasks are made anew then.
    """
    group = step.group
    found = topics_hash(group)
    if found != group.metadata_hash:
        group.configured = None
    group.checked_version = group.topics.version
    return found


def bump_if_needed(
    step: Step,
    member: StreamsMember,
    cause: Bump | None,
    found: int,
    configured: ConfiguredTopology,
) -> None:
    """Raise the epoch for a changed member, changed topics, a validated topology or settings.

    Args:
        step: the step.
        member: the member that sends the heartbeat.
        cause: why a changed description of the member raises it; None if it has not changed.
        found: the hash of the topics.
        configured: the topology with its tasks.
    """
    group = step.group
    validated = configured.epoch if configured.is_ready else NOT_VALIDATED
    replicas = step.partition.streams_settings(group.group_id).num_standby_replicas
    configs = {_STANDBY_REPLICAS: str(replicas)}
    instigator = None if cause is None else instigator_of(member)
    if cause is None:
        if found != group.metadata_hash:
            cause = Bump.TOPICS
        elif validated != group.validated_epoch:
            cause = Bump.VALIDATED
        elif configs != group.assignment_configs:
            cause = Bump.SETTINGS
    if cause is not None:
        _write_epoch(step, found, validated, configs, cause, instigator)


def bump_for_removal(step: Step, cause: Bump, instigator: Instigator) -> None:
    """Raise the epoch because a member is gone: what else the record says stays as it is."""
    group = step.group
    _write_epoch(
        step,
        group.metadata_hash,
        group.validated_epoch,
        group.assignment_configs,
        cause,
        instigator,
    )


def _write_epoch(
    step: Step,
    found: int,
    validated: int,
    configs: dict[str, str],
    cause: Bump,
    instigator: Instigator | None,
) -> None:
    group = step.group
    checked = group.checked_version
    write_epoch(
        step,
        StreamsGroupMetadataValue,
        found,
        cause,
        instigator,
        validated_topology_epoch=validated,
        last_assignment_configs=[
            StreamsKeyValue(key=key, value=value) for key, value in sorted(configs.items())
        ],
    )
    # A removal does not look at the topics.
    group.checked_version = checked
