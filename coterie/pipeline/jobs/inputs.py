"""Which logs there are to read, what of them is new, and what an input goes by.

An input is a cluster. A data directory says its cluster's id in `meta.properties`; one without goes
by its path. So the directories of several brokers of a cluster are one input, each partition read
from the directory that has the most of it, and a directory that was moved is the input it was.

Groups of different clusters may have the same name. Those of the first input of an output directory
go by their own; those of another one get its label behind an `@`: `orders@billing`. A label is the
name of the first directory given for it, is made once, and stays.
"""

import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from coterie.pipeline.options import LogOptions
from coterie.pipeline.ranges import LogRange, log_end, plan_ranges
from coterie.pipeline.segments import NoSuchLog, find_partitions, list_segments
from coterie.pipeline.store import Store
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC
from coterie.storage.properties import read_properties

# The journal first: what it tells of a generation stands in the group log already, so a run that
# reads both up to what it finds never has a fact without its record.
TOPICS = (JOURNAL_TOPIC, OFFSETS_TOPIC)

_META_FILE = "meta.properties"
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class NewRecords(NamedTuple):
    """What is to be read of one topic of an input, in ranges."""

    input: str
    topic: str
    ranges: list[LogRange]


class Plan(NamedTuple):
    """What a run reads.

    Attributes:
        new: where there is something new.
        positions: how far each input will have been read: input, topic, partition, next offset.
        about: by input what the store remembers of it: `paths`, `label`, `partitions` (by topic
            the number of them, None where it can't be told).
        warnings: logs that are not what they were, told to people.
        size_bytes: of the new records, about.
    """

    new: list[NewRecords]
    positions: dict[str, dict[str, dict[int, int]]]
    about: dict[str, dict[str, Any]]
    warnings: list[str]
    size_bytes: int


class _Found(NamedTuple):
    """A partition's directory and where its log ends."""

    directory: str
    end_offset: int


def identity_of(path: str) -> str:
    """What the input goes by that a data directory belongs to: the cluster's id, else the path.

    Args:
        path: a data directory, or one partition's directory in it.
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
    """What is new in these directories since the last run.

    Args:
        store: which knows how far they were read.
        paths: data directories; several of one cluster are read as one.

    Raises:
        NoSuchLog: one of them holds neither topic.
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
            counts[topic] = _believable_count(directories, partitions)
            result = _with_topic(result, store, name, topic, partitions)
        known = store.about(name).get("paths", [])
        result.about[name] = {
            "paths": list(dict.fromkeys([*known, *directories])),
            "label": labels[name],
            "partitions": counts,
        }
    return result


def _with_topic(
    plan: Plan, store: Store, name: str, topic: str, partitions: dict[int, _Found]
) -> Plan:
    """A plan with what is new in one topic of an input."""
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
                f"{found.directory} ends at offset {found.end_offset}, and was read to {begin}"
                " already: it is another log, or lost its end; nothing of it is read before it is"
                " longer than that (give another --output to read it from its beginning)"
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
    """The partitions of a topic, each in the directory that has the most of it."""
    best: dict[int, _Found] = {}
    for path in directories:
        try:
            partitions = find_partitions(path, topic)
        except NoSuchLog:
            # A broker that coordinates nothing has no group log, an older one no journal.
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


def _believable_count(directories: list[str], partitions: dict[int, _Found]) -> int | None:
    """The number of partitions that the topic has, if all seem to be there."""
    whole = all(
        os.path.dirname(found.directory) in directories for found in partitions.values()
    ) and set(partitions) == set(range(len(partitions)))
    return len(partitions) if whole and partitions else None


def new_label(path: str, labels: dict[str, str]) -> str:
    """The label of a further input; the first one needs none."""
    if not labels:
        return ""
    base = _UNFIT.sub("-", os.path.basename(path)) or "input"
    taken = set(labels.values())
    label, number = base, 1
    while label in taken:
        number += 1
        label = f"{base}-{number}"
    return label
