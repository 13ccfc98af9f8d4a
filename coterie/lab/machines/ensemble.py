"""An ensemble of ZooKeeper: a leader, followers that lag, sessions, watches on the members.

A write is applied by the leader and visible at each follower a little later. A client stays with
one server, whose state never goes back; its own writes are visible to it. An event arrives before
data that is newer than it. Each operation occupies its server, so queues form.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machines.old_consumer_work import IDS, OFFSETS, TOPICS, Request
from coterie.lab.pods import Pod

_TICK_US = 2_000 * MS
_BYTES = 60
_GROUP_PATH = "/consumers/group"
_IDS_PATH = f"{_GROUP_PATH}/ids"
# The history of a value is cut when it has more entries than this.
_MAX_HISTORY = 64


class SessionExpired(Exception):  # noqa: N818 - ZooKeeper's name
    """The session of the client has ended."""


class _Value:
    """A value with its history, so that a follower can show an older one."""

    __slots__ = ("numbers", "values")

    def __init__(self, value: Any) -> None:
        self.numbers = [0]
        self.values = [value]

    def set(self, number: int, value: Any, needed_from: int) -> None:
        self.numbers.append(number)
        self.values.append(value)
        if len(self.numbers) > _MAX_HISTORY:
            keep = max(0, bisect_right(self.numbers, needed_from) - 1)
            del self.numbers[:keep], self.values[:keep]

    def at(self, number: int) -> Any:
        return self.values[max(0, bisect_right(self.numbers, number) - 1)]


class View:
    """The nodes of the group as one server sees them."""

    def __init__(self, ensemble: "Ensemble", number: int) -> None:
        self._ensemble = ensemble
        self.number = number

    def members(self) -> frozenset[str]:
        """Return the children of /consumers/GROUP/ids."""
        found: frozenset[str] = self._ensemble.ids.at(self.number)
        return found

    def owner(self, partition: TopicPartition) -> str | None:
        """Return the value of an owner node; None if there is none."""
        found: str | None = self._ensemble.owners[partition].at(self.number)
        return found

    def offset(self, partition: TopicPartition) -> int:
        """Return the stored offset of a partition."""
        found: int = self._ensemble.offsets[partition].at(self.number)
        return found


def _watched(request: Request) -> tuple[str, ...]:
    """Return the paths on which a request sets a watch."""
    if request.nodes == IDS:
        return (_IDS_PATH,)
    if request.nodes == TOPICS:
        return tuple(f"/brokers/topics/{name}" for name in request.keys)
    return ("/brokers/ids",)


class Session:
    """A client's session.

    Attributes:
        name: the client, which is the value of its owner nodes.
        server: the number of the server to which it is connected.
        touched_us: when the ensemble last heard of it.
        alive: whether it lasts.
        watches: whether a change of the members is to be reported.
        on_event: called in the client's process after such a change.
    """

    def __init__(self, pod: Pod, server: int, now_us: int) -> None:
        self.pod = pod
        self.life = pod.life
        self.name = pod.identity
        self.server = server
        self.touched_us = now_us
        self.alive = True
        self.watches = False
        self.on_event: Callable[[], None] = lambda: None


class Ensemble:
    """The servers and their nodes."""

    def __init__(self, environment: Environment) -> None:
        parameters = environment.parameters
        self.environment = environment
        self.servers = parameters.zk_servers
        self.lag_us = int(parameters.zk_lag_ms * MS)
        self.load_max_us = 0
        self.ids = _Value(frozenset())
        self.owners: defaultdict[TopicPartition, _Value] = defaultdict(lambda: _Value(None))
        self.offsets: defaultdict[TopicPartition, _Value] = defaultdict(lambda: _Value(0))
        self.sessions: list[Session] = []
        self._random = environment.world.stream("ensemble")
        self._number = 0
        self._free_us = [0] * self.servers
        # For each follower the writes that it has not seen: when it will, and their number.
        self._unseen: list[list[tuple[int, int]]] = [[] for _ in range(self.servers)]
        self._seen = [0] * self.servers

    def endpoint(self, server: int) -> str:
        """Return the name of a server."""
        return f"zookeeper-{server}"

    # -- sessions ----------------------------------------------------------------------------------

    def connect(self, pod: Pod) -> Session:
        """Open a session."""
        server = int(pod.name.rsplit("-", 1)[1]) % self.servers
        session = Session(pod, server, self.environment.world.now_us)
        self.sessions.append(session)
        self._watch_expiry(session)
        return session

    def _watch_expiry(self, session: Session) -> None:
        timeout_us = self.environment.parameters.zk_session_ms * MS
        ends_us = -(-(session.touched_us + timeout_us) // _TICK_US) * _TICK_US
        self.environment.world.at(ends_us, self._expire, session, session.touched_us)

    def _expire(self, session: Session, touched_us: int) -> None:
        if not session.alive:
            return
        if session.touched_us != touched_us:
            self._watch_expiry(session)
            return
        self.environment.world.note("session ends", session.name)
        self.environment.ledger.noticed(session.name)
        self.end(session)

    def end(self, session: Session) -> None:
        """End a session and delete its nodes."""
        session.alive = False
        self.sessions.remove(session)
        for partition, owner in self.owners.items():
            if owner.values[-1] == session.name:
                self.set_owner(partition, None)
        self.set_members(self.latest.members() - {session.name})

    # -- operations --------------------------------------------------------------------------------

    def call(
        self, session: Session, requests: tuple[Request, ...], then: Callable[[Any], None]
    ) -> None:
        """Let a client make operations, one after the other.

        They are counted and take their time, but happen at one moment, with the view of the
        client's server, or of the leader if they write.

        Args:
            session: of the client.
            requests: the operations; they all write or all read.
            then: gets the list of results in the client's process, or SessionExpired.
        """
        network = self.environment.network
        count = 0
        for request in requests:
            count += request.operations
            network.traffic.count(request.api, _BYTES, estimated=True, times=request.operations)
        # All but the last of several operations take a round trip before it.
        extra_us = max(0, count - 1) * 2 * network.latency_us() if count < 4 else (
            (count - 1) * 2 * int(self.environment.parameters.latency_ms * MS * 1.45)
        )  # fmt: skip
        endpoint = self.endpoint(session.server)
        arguments = (session, count, requests, then, extra_us)
        network.send(session.pod.name, endpoint, self._arrive, *arguments)

    def _arrive(
        self,
        session: Session,
        count: int,
        requests: tuple[Request, ...],
        then: Callable[[Any], None],
        extra_us: int,
    ) -> None:
        world = self.environment.world
        if session.alive:
            session.touched_us = world.now_us
        done_us = self._occupy(session.server, count)
        if requests[0].writes and session.server:
            done_us = max(done_us, self._occupy(0, count))
        world.at(max(done_us, world.now_us + extra_us), self._do, session, requests, then)

    def _occupy(self, server: int, count: int) -> int:
        """Let operations wait in the queue of a server; return when they are done."""
        now_us = self.environment.world.now_us
        begin_us = max(now_us, self._free_us[server])
        self.load_max_us = max(self.load_max_us, begin_us - now_us)
        self._free_us[server] = begin_us + count * self.environment.parameters.zk_operation_us
        return self._free_us[server]

    def _do(
        self, session: Session, requests: tuple[Request, ...], then: Callable[[Any], None]
    ) -> None:
        result: Any
        if not session.alive:
            result = SessionExpired()
        else:
            session.touched_us = self.environment.world.now_us
            view = self.latest if requests[0].writes else self.view(session.server)
            result = [self.perform(session, view, request) for request in requests]
            if requests[0].writes:
                # The answer to a write comes from a server that has applied it.
                self._seen[session.server] = self._number
        pod = session.pod
        self.environment.network.send(
            self.endpoint(session.server), pod.name, pod.act, session.life, then, (result,)
        )

    def perform(self, session: Session, view: View, request: Request) -> Any:
        """Carry a request out; return what it comes to."""
        if request.watch:
            for path in _watched(request):
                self.environment.world.detail(session.name, "watches", path)
        if request.api == "getChildren":
            session.watches = session.watches or request.watch
            return view.members() if request.nodes == IDS else ()
        if request.api == "getData":
            return self._read(view, request)
        if request.api == "create":
            return self._create(session, view, request)
        if request.api == "delete":
            for partition in request.keys:
                if view.owner(partition) == session.name:
                    self.set_owner(partition, None)
        elif request.api == "setData":
            for partition, offset in zip(request.keys, request.values, strict=True):
                self.set_offset(partition, offset)
        elif request.api == "closeSession":
            self.end(session)
        return None

    def _read(self, view: View, request: Request) -> dict[Any, Any]:
        counts = self.environment.workload.counts
        if request.nodes == IDS:
            members, topics = view.members(), tuple(counts)
            return {key: topics for key in request.keys if key in members}
        if request.nodes == OFFSETS:
            return {key: view.offset(key) for key in request.keys}
        return counts if request.nodes == TOPICS else {}

    def _create(self, session: Session, view: View, request: Request) -> tuple[Any, ...]:
        if request.nodes == IDS:
            self.set_members(view.members() | set(request.keys))
            return request.keys
        free = tuple(key for key in request.keys if view.owner(key) in (None, session.name))
        for partition in free:
            self.set_owner(partition, session.name)
        return free

    @property
    def latest(self) -> View:
        """What the leader sees."""
        return View(self, self._number)

    def view(self, server: int) -> View:
        """Return what a server sees now."""
        if not server:
            return self.latest
        now_us = self.environment.world.now_us
        unseen = self._unseen[server]
        while unseen and unseen[0][0] <= now_us:
            self._seen[server] = max(self._seen[server], unseen.pop(0)[1])
        return View(self, self._seen[server])

    # -- writes ------------------------------------------------------------------------------------

    def set_members(self, members: frozenset[str]) -> None:
        """Change the children of ids, and fire the watches on them."""
        before = self.latest.members()
        for name in sorted(members - before):
            self.environment.world.detail("create", f"{_IDS_PATH}/{name}", "ephemeral")
        for name in sorted(before - members):
            self.environment.world.detail("delete", f"{_IDS_PATH}/{name}")
        visible_us = self._write(self.ids, members)
        self.environment.ledger.membership(sorted(members))
        for session in self.sessions:
            if session.watches:
                session.watches = False
                self.environment.world.at(visible_us[session.server], self._fire, session)

    def set_owner(self, partition: TopicPartition, owner: str | None) -> None:
        """Create or delete the owner node of a partition."""
        path = f"{_GROUP_PATH}/owners/{partition.topic}/{partition.partition}"
        words = ("delete", path) if owner is None else ("create", path, owner, "ephemeral")
        self.environment.world.detail(*words)
        self._write(self.owners[partition], owner)

    def set_offset(self, partition: TopicPartition, offset: int) -> None:
        """Store an offset."""
        path = f"{_GROUP_PATH}/offsets/{partition.topic}/{partition.partition}"
        self.environment.world.detail("set", path, offset)
        self._write(self.offsets[partition], offset)
        self.environment.ledger.committed(partition, offset)

    def _write(self, value: _Value, new: Any) -> list[int]:
        """Apply a write; return when each server sees it."""
        now_us = self.environment.world.now_us
        self._number += 1
        value.set(self._number, new, min(self._seen))
        visible_us = [now_us]
        for server in range(1, self.servers):
            unseen = self._unseen[server]
            at_us = now_us + int(self._random.uniform(0, self.lag_us))
            at_us = max(at_us, unseen[-1][0] if unseen else 0)
            unseen.append((at_us, self._number))
            visible_us.append(at_us)
        self._seen[0] = self._number
        return visible_us

    def _fire(self, session: Session) -> None:
        pod = session.pod
        self.environment.world.detail(session.name, "is woken by", _IDS_PATH)
        self.environment.network.traffic.count("event", _BYTES, estimated=True)
        endpoint = self.endpoint(session.server)
        self.environment.network.send(
            endpoint, pod.name, pod.act, session.life, session.on_event, ()
        )
