"""Bugs planted into what the brokers of a cluster answer, each with the check that finds it."""

from collections.abc import Callable
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.server.cluster.image import ClusterImage
from tests.faults import answers, calling, does_nothing, given
from tests.planting import Plant

Function = Callable[..., Any]

_ELECTIONS = "coterie.server.cluster.elections"
_IMAGE = "coterie.server.cluster.image:ClusterImage"
_LED_LOGS = "coterie.server.logs.led_logs:LedLogs"
_LEADERSHIP = "coterie.server.cluster.leadership:Leadership"
_TOPIC_RULES = "coterie.server.metadata.topic_rules"


def _keeps_the_epoch(moved: Function) -> Function:
    """Return an election after which the partition has the epoch of before."""

    def keep(image: ClusterImage, topic: str, index: int, node_id: int) -> ClusterImage:
        placed = list(moved(image, topic, index, node_id).placements[topic])
        epoch = image.placements[topic][index].leader_epoch
        placed[index] = placed[index]._replace(leader_epoch=epoch)
        return image.with_placements({**image.placements, topic: placed})

    return keep


def _everything_in_sync(place: Function) -> Function:
    """Return a placement with each live broker in sync, also those without a replica."""
    return lambda replicas, live, epoch: place(replicas, live, epoch)._replace(isr=sorted(live))


def _places_all_alike(place: Function) -> Function:
    """Return a placement that gives the same brokers to each partition."""
    return lambda live, fenced, partitions, factor, below: (
        place(live, fenced, 1, factor, below) * partitions
    )


def _ignores_the_epoch(refusal: Function) -> Function:
    """Return a refusal that does not look at the epoch that the client knows."""
    return lambda logs, partition, _epoch, *, may_follow: refusal(
        logs, partition, -1, may_follow=may_follow
    )


CLUSTER_PLANTS: tuple[Plant, ...] = (
    Plant(
        "FindCoordinator names another broker than the one in charge",
        f"{_IMAGE}.coordinator",
        kinds=("wrong_coordinator/join",),
        fault=lambda find: lambda image, *key: find(image, *key) % len(image.nodes) + 1,
    ),
    Plant(
        "each broker coordinates all groups",
        f"{_LED_LOGS}.leads",
        kinds=("wrong_coordinator/join",),
        fault=answers(True),
    ),
    Plant(
        "followers append records",
        "coterie.server.handlers.produce_partitions:append_to",
        "broker.logs.led(topic, asked.index)",
        "type(broker.logs).__mro__[1].led(broker.logs, topic, asked.index)",
        ("wrong_leader/produce/follower",),
    ),
    Plant(
        "a refused Produce does not name the leader",
        "coterie.server.handlers.moved_leaders:name_leaders",
        kinds=("wrong_leader/produce_names_the_leader/follower",),
        fault=does_nothing,
    ),
    Plant(
        "a refused Produce has no endpoints",
        "coterie.server.handlers.moved_leaders:name_leaders",
        kinds=("wrong_leader/produce_names_the_leader/follower",),
        fault=calling("coterie.server.handlers.moved_leaders:endpoints_of", answers([])),
    ),
    Plant(
        "a refused Fetch does not name the leader",
        "coterie.server.handlers.plain_fetch:Fetch._add_leaders",
        kinds=("wrong_leader/fetch_names_the_leader",),
        fault=does_nothing,
    ),
    Plant(
        "followers serve no Fetch",
        f"{_LED_LOGS}._refusal",
        kinds=("wrong_leader/fetch_from_a_follower/any_epoch",),
        fault=given(may_follow=False),
    ),
    Plant(
        "followers serve every Fetch and name offsets",
        f"{_LED_LOGS}._refusal",
        kinds=("wrong_leader/fetch_before_followers_serve",),
        fault=given(may_follow=True),
    ),
    Plant(
        "a broker without a replica serves a Fetch",
        f"{_LED_LOGS}._refusal",
        kinds=("wrong_leader/fetch_elsewhere",),
        fault=answers(ErrorCode.NONE),
    ),
    Plant(
        "the epoch that the client knows is not compared",
        f"{_LED_LOGS}._refusal",
        kinds=("replicas/epoch_before_an_election_elsewhere/old_leader",),
        fault=_ignores_the_epoch,
    ),
    Plant(
        "an election keeps the epoch",
        f"{_ELECTIONS}:leader_moved",
        kinds=("replicas/records_across_an_election",),
        fault=_keeps_the_epoch,
    ),
    Plant(
        "an election changes nothing",
        f"{_ELECTIONS}:leader_moved",
        kinds=("replicas/new_order",),
        fault=lambda _: lambda image, *_partition: image,
    ),
    Plant(
        "an election is held that nobody needs",
        "coterie.server.handlers.elect_leaders:_needs_election",
        kinds=("replicas/new_order",),
        fault=answers(True),
    ),
    Plant(
        "a reassignment changes nothing",
        f"{_ELECTIONS}:reassigned",
        kinds=("replicas/moved",),
        fault=lambda _: lambda image, *_partition: image,
    ),
    Plant(
        "brokers without a replica are in sync",
        f"{_ELECTIONS}:new_placement",
        kinds=("replicas/replication_factor/2",),
        fault=_everything_in_sync,
    ),
    Plant(
        "all partitions of a topic are led by one broker",
        "coterie.server.cluster.replica_placer:place_replicas",
        kinds=("replicas/leaders_are_spread",),
        fault=_places_all_alike,
    ),
    Plant(
        "more replicas than brokers are accepted",
        f"{_TOPIC_RULES}:check_factor",
        kinds=("replicas/too_many_replicas",),
        fault=does_nothing,
    ),
    Plant(
        "brokers that do not exist are assigned",
        f"{_TOPIC_RULES}:check_replicas",
        kinds=("replicas/refused_assignment/unknown",),
        fault=does_nothing,
    ),
    Plant(
        "partitions may have different numbers of replicas",
        f"{_TOPIC_RULES}:check_same_factor",
        kinds=("replicas/refused_assignment/uneven",),
        fault=does_nothing,
    ),
    Plant(
        "a reassignment may change the number of replicas in any case",
        "coterie.server.handlers.alter_partition_reassignments:_check_factor",
        kinds=("replicas/replication_factor_is_kept",),
        fault=does_nothing,
    ),
    Plant(
        "acks of all replicas are refused while all are in sync",
        f"{_LEADERSHIP}._lacks_replicas",
        kinds=("replicas/fewer_replicas_than_must_be_in_sync",),
        fault=answers(True),
    ),
    Plant(
        "two brokers give the same producer id",
        "coterie.server.metadata.settings_file:SettingsFile.new_producer_id",
        kinds=("wrong_transaction_coordinator/init_without_an_id",),
        fault=answers(7),
    ),
    Plant(
        "markers are written by the coordinator itself",
        "coterie.server.transactions.led_elsewhere:MarkersOfCluster.send_one",
        kinds=("wrong_transaction_coordinator/transaction_over_brokers/commit",),
        fault=lambda _: lambda writer, *marker: writer.write_one(*marker),
    ),
)
