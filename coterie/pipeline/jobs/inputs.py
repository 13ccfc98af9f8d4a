"""Find the logs to read and what is new in them, and name the inputs.

An input is a cluster, which one or several data directories belong to [pipeline/input-identity].
The groups of every input but the first get a label: `orders@billing` [pipeline/input-identity].
"""

import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.pipeline.options import LogOptions
from coterie.pipeline.ranges import LogRange, log_end, plan_ranges
from coterie.pipeline.segments import NoSuchLog, find_partitions, list_segments, topic_names
from coterie.pipeline.store import Store, topic_names_in
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC, SHARE_GROUPS_TOPIC
from coterie.storage.properties import read_properties

# The journal is first: generations reach the group log before it, so a run never has a fact without
# its record.
TOPICS = (JOURNAL_TOPIC, OFFSETS_TOPIC, SHARE_GROUPS_TOPIC)

_META_FILE = "meta.properties"
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")


class NewRecords(NamedTuple):
    """The ranges to read of one topic of an input."""

    input: str
    topic: str
    ranges: list[LogRange]


class Plan(NamedTuple):
    """The plan of what a run reads.

    Attributes:
        new: the new records.
        positions: the next offset after the run, by input, topic and partition.
        about: what the manifest stores about each input: `paths`, `label`, `partitions` (their
            number by topic, None if it is unknown), and `topics` (names by topic id).
        warnings: messages about logs that have become shorter.
        size_bytes: about the size of the new records.
    """

    new: list[NewRecords]
    positions: dict[str, dict[str, dict[int, int]]]
    about: dict[str, dict[str, Any]]
    warnings: list[str]
    size_bytes: int


class _Found(NamedTuple):
    """The directory of a partition, and where its log ends."""

    directory: str
    end_offset: int


def identity_of(path: str) -> str:
    """Return the name of the input that a data directory belongs to [pipeline/input-identity].

    Args:
        path: a data directory, or the directory of one partition.
    """
    path = os.path.realpath(path)
    for directory in (path, os.path.dirname(path)):
        try:
            with open(os.path.join(directory, _META_FILE), encoding="utf-8") as file:
                cluster_id = read_properties(file.read()).get("cluster.id")
        except (OSError, ValueError):
            continue
        if cluster_id:
            return cluster_id
    return path


def plan(store: Store, paths: Iterable[str]) -> Plan:
    """Plan to read what is new in directories since the last run.

    Args:
        store: the output directory, which has the positions of the last run.
        paths: data directories; several of one cluster are read as one input.

    Raises:
        NoSuchLog: one of them contains neither topic.
    """
    inputs: dict[str, list[str]] = {}
    for path in paths:
        given = inputs.setdefault(identity_of(path), [])
        path = os.path.realpath(path)
        if path not in given:
            given.append(path)
    result = Plan([], {}, {}, [], 0)
    labels = {name: store.about(name).get("label", "") for name in store.inputs}
    for name, directories in inputs.items():
        if name not in labels:
            labels[name] = new_label(directories[0], labels)
        counts: dict[str, int | None] = {}
        for topic in TOPICS:
            partitions = _partitions(directories, topic)
            counts[topic] = _partition_count(directories, partitions)
            result = _with_topic(result, store, name, topic, partitions)
        known = store.about(name).get("paths", [])
        result.about[name] = {
            "paths": list(dict.fromkeys([*known, *directories])),
            "label": labels[name],
            "partitions": counts,
            # A topic that is deleted later keeps its name.
            "topics": topic_names_in([store.about(name)])
            | {id_: topic for path in directories for id_, topic in topic_names(path).items()},
        }
    return result


def _with_topic(
    plan: Plan, store: Store, name: str, topic: str, partitions: dict[int, _Found]
) -> Plan:
    """Return the plan with what is new in one topic of an input added."""
    read_to = store.position(name, topic)
    ends: dict[int, int] = {}
    new: dict[int, _Found] = {}
    for number, found in partitions.items():
        begin = read_to.get(number, 0)
        if found.end_offset > begin:
            new[number] = found
            ends[number] = found.end_offset
        elif found.end_offset < begin:
            plan.warnings.append(
                f"{found.directory} ends at offset {found.end_offset}, but was read to {begin}"
                " before: it is another log, or has lost its end. Nothing is read from it until it"
                " is longer than that; give another --output to read it from its beginning."
            )
    total = sum(
        segment.size_bytes for found in new.values() for segment in list_segments(found.directory)
    )
    target = LogOptions(path="").split_target(total)
    ranges = [
        each
        for number, found in new.items()
        for each in plan_ranges(
            found.directory, number, target, read_to.get(number, 0), found.end_offset
        )
    ]
    if ranges:
        plan.new.append(NewRecords(name, topic, ranges))
        plan.positions.setdefault(name, {})[topic] = ends
    return plan._replace(size_bytes=plan.size_bytes + sum(each.size_bytes for each in ranges))


def _partitions(directories: list[str], topic: str) -> dict[int, _Found]:
    """Return the partitions of a topic, each in the directory in which its log ends last."""
    best: dict[int, _Found] = {}
    for path in directories:
        try:
            partitions = find_partitions(path, topic)
        except NoSuchLog:
            # A broker that coordinates no group has no group log, and Kafka has no journal.
            if topic == OFFSETS_TOPIC and not _has_journal(path):
                raise
            continue
        for number, directory in partitions.items():
            found = _Found(directory, log_end(directory))
            if number not in best or found.end_offset > best[number].end_offset:
                best[number] = found
    return dict(sorted(best.items()))


def _has_journal(path: str) -> bool:
    try:
        return bool(find_partitions(path, JOURNAL_TOPIC))
    except NoSuchLog:
        return False


def _partition_count(directories: list[str], partitions: dict[int, _Found]) -> int | None:
    """Return the number of the topic's partitions if all seem to be in the directories."""
    whole = all(
        os.path.dirname(found.directory) in directories for found in partitions.values()
    ) and set(partitions) == set(range(len(partitions)))
    return len(partitions) if whole and partitions else None


def new_label(path: str, labels: dict[str, str]) -> str:
    """Return the label of a new input; the first input has none."""
    if not labels:
        return ""
    base = _NOT_IN_LABELS.sub("-", os.path.basename(path)) or "input"
    taken = set(labels.values())
    label, number = base, 1
    while label in taken:
        number += 1
        label = f"{base}-{number}"
    return label
