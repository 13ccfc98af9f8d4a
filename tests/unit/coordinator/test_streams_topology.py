"""Topologies of streams groups: cases of Kafka's own classes, and what they do not show.

tests/golden/assignors/README.md says how the cases were made.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from coterie.coordinator.streams_topology.configure import configure
from coterie.coordinator.streams_topology.model import InternalTopic, InvalidTopology
from coterie.coordinator.streams_topology.names import (
    check_changelogs,
    check_topic_names,
    named_topics,
    required_topics,
)
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupTopologyValue,
    StreamsTopic,
    Subtopology,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "assignors" / "streams_topologies.jsonl.gz"


def test_kafkas_classes_make_the_same_of_topologies() -> None:
    count = 0
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            topology = StreamsGroupTopologyValue.decode(bytes.fromhex(case["topology"]), 0)
            try:
                found = _configured(topology, case["partitions"])
            except InvalidTopology as refused:
                found = {"invalid": refused.message}
                if "broken" in case["result"]:
                    # Kafka fails with an exception of Java, which no text of ours can equal.
                    found = case["result"]
            assert found == case["result"], topology
            count += 1
    assert count == 500


def _configured(topology: StreamsGroupTopologyValue, partitions: dict[str, int]) -> dict[str, Any]:
    found = configure(topology, partitions)
    return {
        "subtopologies": {
            each: [
                subtopology.tasks,
                sorted(subtopology.source_topics),
                _internal(subtopology.repartition_sources),
                _internal(subtopology.changelogs),
            ]
            for each, subtopology in found.subtopologies.items()
        },
        "create": [[*topic[:3], dict(topic.configs)] for topic in found.internal_topics_to_create],
        "status": found.status and [found.status.code, found.status.detail],
        "ready": found.is_ready,
    }


def _internal(topics: Any) -> dict[str, list[Any]]:
    return {name: [*topic[1:3], dict(topic.configs)] for name, topic in topics.items()}


def _topic(name: str, partitions: int = 0) -> StreamsTopic:
    return StreamsTopic(name=name, partitions=partitions, replication_factor=0, topic_configs=[])


_LOG = _topic("log")


def _topology(*subtopologies: Subtopology) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(epoch=0, subtopologies=list(subtopologies))


def _subtopology(
    number: int,
    sources: list[str],
    sinks: list[str] | None = None,
    repartition: list[StreamsTopic] | None = None,
    changelogs: list[StreamsTopic] | None = None,
) -> Subtopology:
    return Subtopology(
        subtopology_id=str(number),
        source_topics=sources,
        source_topic_regex=[],
        state_changelog_topics=changelogs or [],
        repartition_sink_topics=sinks or [],
        repartition_source_topics=repartition or [],
        copartition_groups=[],
    )


def test_a_default_replication_factor_is_asked_for_as_minus_one() -> None:
    found = configure(_topology(_subtopology(0, ["in"], changelogs=[_LOG])), {"in": 2})
    assert found.subtopologies["0"].stateful
    assert found.subtopologies["0"].changelogs == {"log": InternalTopic("log", 2, 0, {})}
    assert found.internal_topics_to_create == (InternalTopic("log", 2, -1, {}),)


@pytest.mark.parametrize(
    ("topology", "partitions"),
    [
        (_topology(_subtopology(0, ["in"], changelogs=[_LOG, _LOG])), {"in": 1}),
        (
            _topology(
                _subtopology(0, ["in"], ["r"], [_topic("r", -2)]),
            ),
            {"in": 1},
        ),
    ],
    ids=["a topic twice", "a negative count"],
)
def test_what_kafkas_classes_cannot_hold_is_invalid(
    topology: StreamsGroupTopologyValue, partitions: dict[str, int]
) -> None:
    with pytest.raises(InvalidTopology):
        configure(topology, partitions)


def test_a_long_chain_in_the_wrong_order_is_decided() -> None:
    length = 300
    links = [
        _subtopology(
            number,
            [] if number else ["in"],
            [f"r{number}"],
            [_topic(f"r{number - 1}")] if number else [],
        )
        for number in range(length)
    ]
    found = configure(_topology(*reversed(links)), {"in": 3})
    assert {each.tasks for each in found.subtopologies.values()} == {3}
    assert found.status is not None
    assert found.status.detail.endswith(f" and {length - 1 - 3} additional topics")


def test_names_are_checked_in_the_order_of_kafka() -> None:
    topology = _topology(_subtopology(0, ["in", "__own"], ["out", "in"], [_topic("r?")], [_LOG]))
    assert named_topics(topology) == ["in", "__own", "out", "r?", "log"]
    assert required_topics(topology) == ["in", "__own", "r?", "log"]
    with pytest.raises(InvalidTopology, match=r"Kafka internal topics __own in a Kafka Streams"):
        check_topic_names(topology, internal_topics={"__own"}, why_illegal=lambda name: name)
    with pytest.raises(InvalidTopology, match=r"^Topic names out,log are not valid topic names\.$"):
        check_topic_names(
            topology,
            internal_topics=(),
            why_illegal=lambda name: "too bad" if name in ("out", "log") else None,
        )
    check_topic_names(topology, internal_topics=(), why_illegal=lambda _: None)


def test_a_changelog_has_no_count_of_its_own() -> None:
    topology = _topology(_subtopology(0, ["in"], changelogs=[_LOG]))
    check_changelogs(topology)
    topology.subtopologies[0].state_changelog_topics = [_topic("log", 3)]
    with pytest.raises(
        InvalidTopology,
        match=r"^Changelog topic log must have an undefined partition count, but it is set to 3\.$",
    ):
        check_changelogs(topology)
