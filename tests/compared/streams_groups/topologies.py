"""Topologies of streams applications for conversations, and ones that no group may have."""

from collections.abc import Callable, Sequence

from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsHeartbeatCopartitionGroup,
    StreamsHeartbeatKeyValue,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTopicInfo,
    StreamsHeartbeatTopology,
)


def internal(name: str, partitions: int = 0, **configs: str) -> StreamsHeartbeatTopicInfo:
    """Return an internal topic; underscores in the names of settings stand for dots."""
    return StreamsHeartbeatTopicInfo(
        name=name,
        partitions=partitions,
        replication_factor=-1,
        topic_configs=[
            StreamsHeartbeatKeyValue(key=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ],
    )


def subtopology(
    number: int,
    sources: Sequence[str] = (),
    *,
    changelogs: Sequence[StreamsHeartbeatTopicInfo] = (),
    sinks: Sequence[str] = (),
    repartitions: Sequence[StreamsHeartbeatTopicInfo] = (),
    together: bool = False,
    regexes: Sequence[str] = (),
) -> StreamsHeartbeatSubtopology:
    """Return a subtopology; `together` if all that it reads needs the same partitions."""
    group = StreamsHeartbeatCopartitionGroup(
        source_topics=list(range(len(sources))),
        source_topic_regex=[],
        repartition_source_topics=list(range(len(repartitions))),
    )
    return StreamsHeartbeatSubtopology(
        subtopology_id=str(number),
        source_topics=list(sources),
        source_topic_regex=list(regexes),
        state_changelog_topics=list(changelogs),
        repartition_sink_topics=list(sinks),
        repartition_source_topics=list(repartitions),
        copartition_groups=[group] if together else [],
    )


Parts = list[StreamsHeartbeatSubtopology]


def _plain(topics: str, _inner: str) -> Parts:
    return [subtopology(0, [f"{topics}-a"])]


def _two_parts(topics: str, inner: str) -> Parts:
    store = internal(f"{inner}-store", cleanup_policy="compact")
    return [
        subtopology(0, [f"{topics}-a"], changelogs=[store]),
        subtopology(1, [f"{topics}-b", f"{topics}-c"]),
    ]


def _repartitioned(topics: str, inner: str) -> Parts:
    store = internal(f"{inner}-store", cleanup_policy="compact", retention_ms="1000000")
    return [
        subtopology(0, [f"{topics}-b"], sinks=[f"{inner}-map"]),
        subtopology(1, [], repartitions=[internal(f"{inner}-map")], changelogs=[store]),
    ]


def _absent_source(topics: str, inner: str) -> Parts:
    return [
        subtopology(0, [f"{topics}-b", f"{topics}-absent"]),
        subtopology(1, [f"{topics}-c"], changelogs=[internal(f"{inner}-store")]),
    ]


def _joined(topics: str, inner: str) -> Parts:
    """Sources that may have other partitions, and one topic that is raised to theirs."""
    return [
        subtopology(0, [f"{topics}-c"], sinks=[f"{inner}-map"]),
        subtopology(1, [f"{topics}-b"], repartitions=[internal(f"{inner}-map")], together=True),
        subtopology(2, [f"{topics}-c", f"{topics}-absent"], together=True),
    ]


def _deep(topics: str, inner: str) -> Parts:
    stores = [internal(f"{inner}-s{each}", cleanup_policy="compact") for each in range(3)]
    return [
        subtopology(0, [f"{topics}-a"], changelogs=stores[:1], sinks=[f"{inner}-m"]),
        subtopology(
            1,
            [],
            repartitions=[internal(f"{inner}-m", 4)],
            changelogs=stores[1:2],
            sinks=[f"{inner}-n"],
        ),
        subtopology(2, [], repartitions=[internal(f"{inner}-n")], changelogs=stores[2:]),
        subtopology(3, [f"{topics}-c"]),
    ]


Maker = Callable[[str, str], Parts]
# What groups have; the arguments are the beginnings of the names of source and internal topics.
# The first ones can be configured at once.
READY: tuple[Maker, ...] = (_plain, _two_parts, _repartitioned, _deep)
TOPOLOGIES: tuple[Maker, ...] = (*READY, _absent_source, _joined)


def refused(topics: str, inner: str) -> list[Parts]:
    """Return topologies that no group may have."""
    source = f"{topics}-a"
    return [
        [subtopology(0, ["__consumer_offsets", "__transaction_state"])],
        [subtopology(0, [source], sinks=["a b"])],
        [subtopology(0, [source], regexes=["f.*"])],
        [subtopology(0, [source], changelogs=[internal(f"{inner}-store", 3)])],
        [subtopology(0, [source], repartitions=[internal(f"{inner}-lone")])],
        [
            subtopology(0, [], repartitions=[internal("x")], sinks=["y"]),
            subtopology(1, [], repartitions=[internal("y")], sinks=["x"]),
        ],
    ]


def topology(parts: Parts, epoch: int = 0) -> StreamsHeartbeatTopology:
    """Return the topology of subtopologies."""
    return StreamsHeartbeatTopology(epoch=epoch, subtopologies=parts)
