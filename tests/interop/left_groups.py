"""Consumer groups in every state, left behind by one broker, and what becomes of them in another.

stable      one member has all partitions and has committed an offset
empty       its member has left
rejoining   one of two members has left, and no target was computed since
waiting     a second member waits for partitions that the first one was not asked to give up
revoking    the first one was asked to, and has not done it
released    it has done it, and the second one does not know that yet
away        the static member has left for a while
regex       its member subscribes to a regular expression
upgraded    a member of the consumer protocol has joined a classic one
syncing     as `upgraded`, and the classic member has joined again and knows no assignment yet
downgraded  the member of the consumer protocol has left the classic one again
deleted     it was deleted
"""

from collections.abc import Iterator
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from tests.interop.group_members import ClassicMember, ConsumerMember, check
from tests.interop.model import Failed, Surroundings
from tests.interop.requests import ask

PARTITIONS = 6
# Targets are due at once, so that each state can be reached by one request after the other.
CONFIG = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
}
_STATES = {
    "stable": "Stable",
    "empty": "Empty",
    "rejoining": "Assigning",
    "waiting": "Reconciling",
    "revoking": "Reconciling",
    "released": "Reconciling",
    "away": "Reconciling",
    "regex": "Stable",
    "upgraded": "Reconciling",
    "syncing": "Reconciling",
    "downgraded": "PreparingRebalance",
}
_CLASSIC = ("downgraded",)
_OFFSET = 5
_ROUNDS = 30
_LIMIT_S = 60.0


class LeftGroups:
    """The groups that one broker leaves.

    Attributes:
        topic: their topic, which has six partitions.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._members: dict[str, list[ConsumerMember]] = {}
        self._classic: dict[str, ClassicMember] = {}

    def group(self, name: str) -> str:
        """Return the group id of one of the groups."""
        return f"{name}-{self.topic}"

    # -- leaving them ------------------------------------------------------------------------------

    def leave(self, around: Surroundings, bootstrap: str) -> None:
        """Leave a group in each state."""
        self.wait_until_loaded(around, bootstrap)
        self._start("stable", bootstrap, 1)[0].commit(bootstrap, self.topic, _OFFSET)
        for name in ("empty", "deleted"):
            self._start(name, bootstrap, 1)[0].leave(bootstrap)
        answer = ask(bootstrap, DeleteGroupsRequest(groups_names=[self.group("deleted")]), 2)
        check(answer.results[0].error_code, "the group cannot be deleted")
        self._start("rejoining", bootstrap, 2)
        self._settle("rejoining", bootstrap)
        self._members["rejoining"].pop().leave(bootstrap)
        self._start("waiting", bootstrap, 2)
        first, _ = self._start("revoking", bootstrap, 2)
        first.beat(bootstrap)
        first, _ = self._start("released", bootstrap, 2)
        first.beat(bootstrap)
        first.acknowledge(bootstrap)
        (static,) = self._start("away", bootstrap, 1, instance_id="i1")
        static.leave(bootstrap, for_a_while=True)
        member = ConsumerMember(self.group("regex"), "m1")
        self._members["regex"] = [member]
        member.join(bootstrap, regex=f"{self.topic}.*")
        around.until(lambda: member.beat(bootstrap) == 2, _LIMIT_S, "the regex is resolved")
        for name in ("upgraded", "syncing", "downgraded"):
            classic = self._classic[name] = ClassicMember(self.group(name), self.topic)
            classic.join(bootstrap)
            classic.sync(bootstrap, range(PARTITIONS))
            self._start(name, bootstrap, 1)
        self._classic["syncing"].join(bootstrap)
        self._members["downgraded"].pop().leave(bootstrap)
        for name, state in _STATES.items():
            found = _listed(bootstrap)[self.group(name)]
            wanted = (state, "classic" if name in _CLASSIC else "consumer")
            if found != wanted:
                raise Failed(f"the group {name} is {found} and not {wanted}")

    def _start(self, name: str, bootstrap: str, count: int, **more: Any) -> list[ConsumerMember]:
        members = [
            ConsumerMember(self.group(name), f"m{number + 1}", **more) for number in range(count)
        ]
        for each in members:
            each.join(bootstrap, names=[self.topic])
        self._members[name] = members
        return members

    def _settle(self, name: str, bootstrap: str) -> None:
        """Let the members of a group do what they are asked to until it is Stable."""
        members = self._members[name]
        for _ in range(_ROUNDS):
            for each in members:
                each.beat(bootstrap)
                each.acknowledge(bootstrap)
            classic = self._classic.get(name)
            if classic is not None:
                classic.go_on(bootstrap, range(PARTITIONS))
            if _listed(bootstrap)[self.group(name)][0] == "Stable":
                return
        raise Failed(f"the group {name} does not become Stable: {_listed(bootstrap)}")

    # -- continuing with them ----------------------------------------------------------------------

    def wait_until_loaded(self, around: Surroundings, bootstrap: str) -> None:
        """Wait until a broker that was started answers for the groups."""
        loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        around.until(
            lambda: all(each[0] not in loading for each in self.described(bootstrap).values()),
            _LIMIT_S,
            f"the groups are loaded by {bootstrap}",
        )

    def described(self, bootstrap: str) -> dict[str, Any]:
        """Return what a broker says of each group, without its state: a load may change that."""
        names = [self.group(name) for name in _STATES if name not in _CLASSIC]
        request = ConsumerGroupDescribeRequest(group_ids=names)
        return {
            each.group_id: (
                each.error_code,
                each.group_state,
                each.group_epoch,
                each.assignment_epoch,
                sorted(map(str, each.members)),
            )
            for each in ask(bootstrap, request, 1).groups
        }

    def go_on(self, bootstrap: str) -> None:
        """Let all members go on with another broker, and check what they get.

        Raises:
            Failed: an epoch has changed for no reason, or partitions have no owner or two.
        """
        listed = _listed(bootstrap)
        if self.group("deleted") in listed:
            raise Failed("the deleted group is there")
        for name in _STATES:
            kind = listed[self.group(name)][1]
            if kind != ("classic" if name in _CLASSIC else "consumer"):
                raise Failed(f"the group {name} is of type {kind}")
        for name, members in self._members.items():
            if name in ("empty", "deleted"):
                # The departure has raised the epoch; a group that is new begins at 1.
                before = 1 if name == "deleted" else members[0].last_epoch + 1
                wanted = before + 1
                members[0].join(bootstrap, names=[self.topic])
            elif name == "away":
                wanted = members[0].last_epoch
                members[0].join(bootstrap, names=[self.topic])
            else:
                wanted = self._epoch_after(name)
            self._settle(name, bootstrap)
            self._check(name, wanted)
        self._members["stable"][0].check_offset(bootstrap, self.topic, _OFFSET)
        self._members["stable"][0].commit(bootstrap, self.topic, _OFFSET + 1)

    def _epoch_after(self, name: str) -> int:
        classic = self._classic.get(name)
        if name in _CLASSIC:
            assert classic is not None
            # One for the upgrade, which it has not seen, and one for the rebalance to come.
            return classic.generation + 2
        newest = max(each.last_epoch for each in self._members[name])
        # The departure has raised it, and no member knows that.
        return newest + (name == "rejoining")

    def _check(self, name: str, epoch: int) -> None:
        owned: list[int] = []
        for epoch_of, partitions in self._holders(name):
            owned += partitions
            if epoch_of != epoch:
                raise Failed(f"the epoch of {name} is {epoch_of} and not {epoch}")
        if sorted(owned) != list(range(PARTITIONS)):
            raise Failed(f"the partitions of {name} have these owners: {self._members[name]}")

    def _holders(self, name: str) -> Iterator[tuple[int, list[int]]]:
        for each in self._members[name]:
            yield each.epoch, each.partitions()
        if name in self._classic:
            yield self._classic[name].generation, self._classic[name].partitions


def _listed(bootstrap: str) -> dict[str, tuple[str, str]]:
    """Return state and type of each group."""
    answer = ask(bootstrap, ListGroupsRequest(), 5)
    return {each.group_id: (each.group_state, each.group_type) for each in answer.groups}
