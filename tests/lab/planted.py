"""Faults planted into the machines of the lab. Its invariants, or a test, must find each of them.

    python -m tests.lab.planted handover-at-once three-and-one --machine cooperative --seed 1

does what `coterie lab run` does with the other arguments, with the fault planted.
"""

import sys
from copy import copy
from random import Random
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.cli.main import main
from coterie.lab.machines.consumer import COOPERATIVE
from coterie.lab.machines.old_consumer_work import OWNERS, Requests, Work
from coterie.lab.scenario import Scenario
from coterie.protocol.messages.join_group import JoinGroupResponse
from tests.faults import Function
from tests.planting import Plant, planted


def _as_sticky(assign: Function) -> Function:
    """Let the leader give partitions to a new owner before the old one has given them up."""

    def at_once(leader: Any, joined: JoinGroupResponse) -> Any:
        if joined.protocol_name == COOPERATIVE:
            joined = copy(joined)
            joined.protocol_name = "sticky"
        return assign(leader, joined)

    return at_once


def _goes_on(_: Function) -> Function:
    """Let a consumer keep what it should give up."""
    return lambda _consumer, _partitions, then: then()


def _but_of_number_0(stop: Function) -> Function:
    """Let the ledger not hear that partitions of number 0 are not read any more."""

    def some(ledger: Any, member: str, partition: TopicPartition) -> None:
        if partition.partition:
            stop(ledger, member, partition)

    return some


def _takes_what_others_have(attempt: Function) -> Function:
    """Let a consumer read the partitions of which others have the owner nodes."""

    def all_created(consumer: Any) -> Work:
        work, result = attempt(consumer), None
        while True:
            try:
                asked = work.send(result)
            except StopIteration as ended:
                return ended.value
            result = yield asked
            if isinstance(asked, Requests):
                (first, *_) = asked.all
                if (first.api, first.nodes) == ("create", OWNERS):
                    result = [first.keys]

    return all_created


def _in_another_order(share: Function) -> Function:
    """Let each client have the list of members in an order of its own."""
    random = Random(1)
    return lambda group, _index, clients, route: share(
        group, random.randrange(clients), clients, route
    )


def _by_the_machine(prepare: Function) -> Function:
    """Let the script of a scenario depend on the machine."""

    def prepared(run: Any, machine: str, scenario: Scenario, seed: int, options: Any) -> None:
        named = scenario._replace(name=f"{scenario.name} {machine}")
        prepare(run, machine, named, seed, options)

    return prepared


def _stops(tick: Function) -> Function:
    """Let some members lose the timer of their heartbeats once the script has begun."""

    def some(member: Any, beat: int) -> None:
        ledger = member.environment.ledger
        if not (member.pod.name.endswith("0") and ledger.window_us is not None):
            tick(member, beat)

    return some


_MACHINES = "coterie.lab.machines"
PLANTS = {
    plant.name: plant
    for plant in (
        Plant("handover-at-once", f"{_MACHINES}.consumer:Consumer.assign", fault=_as_sticky),
        Plant("revoke-after-join", f"{_MACHINES}.consumer:Consumer._revoke", fault=_goes_on),
        Plant("forgotten-stop", "coterie.lab.ledger:Ledger.stop", fault=_but_of_number_0),
        Plant(
            "ignore-conflicts",
            f"{_MACHINES}.old_consumer_work:OldConsumerWork._attempt",
            fault=_takes_what_others_have,
        ),
        Plant("unsorted", f"{_MACHINES}.rocketmq:RocketMqGroup.share", fault=_in_another_order),
        Plant("script-from-machine", "coterie.lab.run:Run.__init__", fault=_by_the_machine),
        Plant(
            "lost-timer",
            f"{_MACHINES}.group_member:GroupMember._tick",
            fault=_stops,
            also=(
                Plant(
                    "lost-timer", f"{_MACHINES}.consumer_group:HeartbeatReader._tick", fault=_stops
                ),
            ),
        ),
    )
}


if __name__ == "__main__":
    _, name, *arguments = sys.argv
    with planted(PLANTS[name]):
        main(["lab", "run", *arguments])
