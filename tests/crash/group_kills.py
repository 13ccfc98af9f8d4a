"""Members of consumer groups while the server is killed, and what they may not lose.

In the group `come-and-go` members of the consumer protocol come and go beside one that stays; in
`migrated` one of them comes and goes beside a classic member, so that the group changes its type
each time. Each sends heartbeats as fast as it is answered, and commits offsets of its partitions.

A member that was told an epoch is known with it after each restart. No two members of the consumer
protocol have a partition at a time, and who joins gets a larger epoch than anybody before. (What a
classic member has is not checked: a change of the type gives it to others before it is told.)
"""

import random
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import ParamSpec, TypeVar

from tests.crash.wire import LATER, Assigned, Connection, Refused, assignment, subscription

_P = ParamSpec("_P")
_Answer = TypeVar("_Answer")

PARTITIONS = 6
MOVED = "moved"
_LOAD_LIMIT_S = 30.0
_LEAVES = -1
# One heartbeat in so many is the last one of a member that comes and goes.
_SHORT_LIFE = 6
_UNKNOWN_SERVER_ERROR, _LOAD_IN_PROGRESS = -1, 14
_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, _REBALANCES = 22, 25, 27
_GROUP_ID_NOT_FOUND, _STALE = 69, 113
# What says that a member has left before. A group without members of the consumer protocol has
# become a classic group, which no heartbeat finds; its classic member notices if it is gone.
_LEFT_BEFORE = _UNKNOWN_MEMBER, _GROUP_ID_NOT_FOUND


def patiently(ask: Callable[_P, _Answer], *arguments: _P.args, **named: _P.kwargs) -> _Answer:
    """Ask again until the server has loaded the group, as every client does."""
    until = time.monotonic() + _LOAD_LIMIT_S
    while True:
        try:
            return ask(*arguments, **named)
        except Refused as refused:
            if refused.code not in LATER or time.monotonic() > until:
                raise
        time.sleep(0.01)


class LivingGroup:
    """What the members of one group know together.

    Attributes:
        name: its id.
        owners: who has each partition, of the members of the consumer protocol.
        largest: the largest epoch that anybody was told.
        sent, acknowledged: the offset of each partition.
        commits: how many were acknowledged.
        epochs: how many larger epochs were told.
        failures: what was wrong.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.owners: dict[int, str] = {}
        self.largest = 0
        self.sent = dict.fromkeys(range(PARTITIONS), -1)
        self.acknowledged = dict(self.sent)
        self.commits = self.epochs = 0
        self.failures: list[str] = []
        self._lock = threading.Lock()

    def takes(self, member_id: str, partitions: frozenset[int]) -> None:
        """Note that a member takes partitions."""
        with self._lock:
            for each in partitions:
                other = self.owners.setdefault(each, member_id)
                if other != member_id:
                    self.failures.append(f"{self.name}: {other} and {member_id} have {each}")

    def gives_up(self, member_id: str, partitions: frozenset[int]) -> None:
        """Note that a member gives partitions up; it says so afterwards."""
        with self._lock:
            for each in partitions:
                if self.owners.get(each) == member_id:
                    del self.owners[each]

    def told(self, epoch: int, least: int) -> None:
        """Note that a member was told an epoch, which may not be less than another one."""
        with self._lock:
            if epoch < least:
                self.failures.append(f"{self.name}: epoch {epoch} comes after {least}")
            self.epochs += epoch > self.largest
            self.largest = max(self.largest, epoch)

    def check_offsets(self, connection: Connection) -> None:
        """Check each offset after a restart."""
        for each in range(PARTITIONS):
            found = patiently(connection.fetch, self.name, MOVED, each)
            acknowledged, sent = self.acknowledged[each], self.sent[each]
            if not acknowledged <= found <= sent:
                self.failures.append(
                    f"{self.name}: of partition {each} {acknowledged} was acknowledged, {found} is"
                    f" found, {sent} was sent"
                )
            self.acknowledged[each] = self.sent[each] = found


class LivingMember:
    """A member of the consumer protocol.

    Attributes:
        total: how often it was answered.
    """

    def __init__(self, group: LivingGroup, name: str, *, stays: bool, seed: int) -> None:
        self.group = group
        self.total = 0
        self._name = name
        self._stays = stays
        self._random = random.Random(f"{group.name} {name} {seed}")
        self._lives = 0
        self._begin()

    def _begin(self) -> None:
        self._lives += 1
        self.member_id = f"{self._name}-{self._lives}"
        self._epoch = 0
        self._owned: frozenset[int] = frozenset()
        self._topic_id = bytes(16)
        self._is_leaving = False

    def live(self, connection: Connection) -> None:
        """Send heartbeats and commit, until the connection ends. Raises OSError, Refused."""
        while True:
            if self._is_leaving:
                self._leave(connection)
            self.beat(connection)
            for each in sorted(self._owned):
                self._commit(connection, each)
            if not self._stays and not self._random.randrange(_SHORT_LIFE):
                self._is_leaving = True

    def beat(self, connection: Connection) -> None:
        """Send one heartbeat; after a restart it says that the member is known."""
        group = self.group
        if self._is_leaving:
            return
        # Who joins comes after everybody who was told an epoch before.
        least = self._epoch or group.largest
        answer = patiently(self._heartbeat, connection)
        self.total += 1
        group.told(answer.epoch, least)
        self._epoch = answer.epoch
        if answer.partitions is None:
            return
        if self._owned - answer.partitions:
            # The rest is taken when the coordinator knows that this was given up.
            kept = self._owned & answer.partitions
            group.gives_up(self.member_id, self._owned - kept)
            self._owned = kept
        else:
            group.takes(self.member_id, answer.partitions)
            self._owned = answer.partitions
            self._topic_id = answer.topic_id if answer.partitions else self._topic_id

    def _heartbeat(self, connection: Connection) -> Assigned:
        try:
            return connection.beat(
                *(self.group.name, self.member_id, self._epoch, MOVED, self._topic_id, self._owned)
            )
        except Refused as refused:
            if refused.code != _UNKNOWN_SERVER_ERROR or self._epoch:
                raise
            # A classic group without a generation yet, which nobody can upgrade.
            raise Refused(_LOAD_IN_PROGRESS) from None

    def _commit(self, connection: Connection, partition: int) -> None:
        group = self.group
        group.sent[partition] += 1
        offset = group.sent[partition]
        try:
            patiently(
                connection.commit_as_member,
                *(group.name, self.member_id, self._epoch, MOVED, partition, offset),
            )
        except Refused as refused:
            if refused.code != _STALE:
                raise
        else:
            group.acknowledged[partition] = offset
            group.commits += 1

    def _leave(self, connection: Connection) -> None:
        """Leave; after a lost answer once more."""
        group = self.group
        group.gives_up(self.member_id, self._owned)
        try:
            patiently(connection.beat, group.name, self.member_id, _LEAVES, MOVED, bytes(16), ())
        except Refused as refused:
            if refused.code not in _LEFT_BEFORE:
                raise
        self._begin()


class LivingClassicMember:
    """A member of the classic protocol, which stays.

    Attributes:
        total: how often it got partitions.
    """

    def __init__(self, group: LivingGroup) -> None:
        self.group = group
        self.total = 0
        self.member_id = ""
        self._generation = -1

    def live(self, connection: Connection) -> None:
        """Send heartbeats, and join again, until the connection ends. Raises OSError, Refused."""
        while True:
            self.beat(connection)

    def beat(self, connection: Connection) -> None:
        """Send one heartbeat, or join; after a restart it says that the member is known."""
        group = self.group
        if self._generation >= 0:
            try:
                patiently(connection.classic_beat, group.name, self._generation, self.member_id)
            except Refused as refused:
                # A change of the type may have made another generation of it.
                if refused.code not in (_REBALANCES, _ILLEGAL_GENERATION):
                    raise
            else:
                return
        least = group.largest
        try:
            generation, self.member_id = patiently(
                connection.join, group.name, self.member_id, subscription(MOVED)
            )
            given = assignment(MOVED, PARTITIONS)
            patiently(connection.sync, group.name, generation, self.member_id, given)
        except Refused as refused:
            if refused.code == _UNKNOWN_MEMBER and self._generation < 0:
                # Nobody has told it that it is a member.
                self.member_id = ""
            elif refused.code not in (_REBALANCES, _ILLEGAL_GENERATION):
                raise
            return
        group.told(generation, least)
        self._generation = generation
        self.total += 1


Living = LivingMember | LivingClassicMember


class GroupsUnderKills:
    """The members of two groups, which go on after each kill.

    Attributes:
        groups, members: see the module.
    """

    def __init__(self, seed: int) -> None:
        pure, migrated = LivingGroup("come-and-go"), LivingGroup("migrated")
        self.groups = pure, migrated
        self.members: list[Living] = [
            LivingMember(pure, "stays", stays=True, seed=seed),
            LivingMember(pure, "first", stays=False, seed=seed),
            LivingMember(pure, "second", stays=False, seed=seed),
            LivingClassicMember(migrated),
            LivingMember(migrated, "newer", stays=False, seed=seed),
        ]

    def live(self, member: Living, port: int) -> None:
        """Let a member live until the server is killed."""
        try:
            with closing(Connection(port)) as connection:
                member.live(connection)
        except OSError:
            return
        except Refused as refused:
            member.group.failures.append(f"{member.member_id}: refused with {refused}")

    def compare(self, port: int) -> None:
        """Check after a restart that all members are known, and each offset."""
        with closing(Connection(port)) as connection:
            for member in self.members:
                try:
                    member.beat(connection)
                except Refused as refused:
                    text = f"{member.member_id} is not known after a restart: {refused}"
                    member.group.failures.append(text)
            for group in self.groups:
                group.check_offsets(connection)
