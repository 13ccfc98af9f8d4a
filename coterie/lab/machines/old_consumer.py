"""The consumer of the ZooKeeper era, as in Kafka 0.8.2: every member computes its own share.

A change of the members wakes all of them. Each one stops, reads everything, computes `range` over
the sorted members and claims its partitions with owner nodes. A node that another member still has
makes the attempt fail; after four failed attempts the consumer waits for the next event.
"""

import zlib
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from coterie.assignors import ASSIGNORS, MemberSubscription, TopicPartition
from coterie.lab.environment import Environment
from coterie.lab.kernel import MS
from coterie.lab.machine import Machine
from coterie.lab.machines.ensemble import Ensemble, Session, SessionExpired, View
from coterie.lab.machines.readings import Readings
from coterie.lab.pods import Participant, Pod

_COMMIT_MS = 60_000
_BROKERS = 1


class _Operation(NamedTuple):
    """Operations on the ensemble, for which a step waits."""

    api: str
    times: int
    do: Callable[[View], Any]
    writes: bool = False


class _Sleep(NamedTuple):
    """A wait of a step."""

    us: int


# A piece of work of the watcher thread: it waits for operations, and gets their results.
Steps = Generator[_Operation | _Sleep, Any, Any]


class ZooKeeperGroup(Machine):
    """Old consumers and the ensemble through which they agree."""

    def __init__(self, environment: Environment) -> None:
        super().__init__(environment)
        self.ensemble = Ensemble(environment)

    def participant(self, pod: Pod) -> Participant:
        """Return an old consumer."""
        return OldConsumer(self.ensemble, pod)

    def servers(self) -> list[str]:
        """Return the servers of the ensemble."""
        return [self.ensemble.endpoint(server) for server in range(self.ensemble.servers)]

    def follower_lags(self, lag_us: int) -> None:
        """Let the followers lag up to so long."""
        self.ensemble.lag_us = lag_us

    def learns_after_us(self, _pod: Pod) -> int:
        """Return the time of an event, since consumers watch the nodes of their topics."""
        return self.environment.network.latency_us()

    def broker_dies(self, down_us: int) -> int:
        """The ensemble is elsewhere, so only the partitions of the broker wait."""
        return min(down_us, self.environment.parameters.failover_ms * MS)

    def load_max_us(self) -> int:
        """Return the longest wait in the queue of a server."""
        return self.ensemble.load_max_us


class OldConsumer:
    """An old consumer in a pod."""

    def __init__(self, ensemble: Ensemble, pod: Pod) -> None:
        self.environment = ensemble.environment
        self.pod = pod
        self._ensemble = ensemble
        self._session: Session | None = None
        self._held = Readings(self.environment, pod)
        self._checkpoint: dict[TopicPartition, int] = {}
        # What the watcher thread does now, and whether it is to rebalance once more.
        self._work: Steps | None = None
        self._event = False
        self._closing = False

    def reading(self) -> set[TopicPartition]:
        """Return the partitions of its fetchers."""
        return set(self._held.reading)

    def slow_poll(self, duration_us: int) -> None:
        """Do nothing: the fetchers and the watcher have threads of their own."""

    def topic_grew(self) -> None:
        """React to the event that the node of a topic has changed."""
        self.environment.ledger.noticed(None)
        self._changed()

    # -- life --------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register and rebalance."""
        parameters = self.environment.parameters
        self.pod.after(int(parameters.start_ms * MS), self._open, False)
        self.pod.after((parameters.commit_ms or _COMMIT_MS) * MS, self._commit_on_time)
        self.pod.after(parameters.zk_session_ms * MS // 3, self._ping)

    def _open(self, again: bool) -> None:  # noqa: FBT001 - called by the clock
        self._session = self._ensemble.connect(self.pod)
        self._session.on_event = self._changed
        self.environment.ledger.rejoining(self.pod.identity, True)
        if again:
            # Ownership is forgotten: nothing is deleted and nothing committed.
            self._checkpoint = dict(self._held.positions(self._held.reading))
        self._run(self._register())

    def close(self) -> None:
        """Commit and close the session, so that all nodes go at once."""
        self.pod.after(self.environment.poll_wait_us(self.pod), self._close)

    def _close(self) -> None:
        session = self._session
        self._closing = True
        self._work = None
        if session is None or not session.alive:
            self._held.stop(set(self._held.owned))
            self.pod.exit()
            return
        changed = self._stop_fetchers()

        def store(_: View) -> None:
            for partition, offset in changed.items():
                self._ensemble.set_offset(partition, offset)
            self._ensemble.end(session)

        self._ensemble.call(
            session, "setData", len(changed) + 1, store, lambda _: self.pod.exit(), writes=True
        )

    def _ping(self) -> None:
        self.pod.after(self.environment.parameters.zk_session_ms * MS // 3, self._ping)
        session = self._session
        if session is not None and not self._closing:
            self._ensemble.call(session, "ping", 1, lambda _: None, self._pinged)

    def _pinged(self, result: Any) -> None:
        if isinstance(result, SessionExpired):
            self._expired()

    def _expired(self) -> None:
        """React to the end of the session, once."""
        session = self._session
        if session is None or self._closing:
            return
        self._session = None
        self._work = None
        self._event = False
        self._open(True)

    # -- the watcher thread ------------------------------------------------------------------------

    def _run(self, work: Steps) -> None:
        """Do a piece of work, step by step."""
        self._work = work
        self._step(work, None)

    def _step(self, work: Steps, result: Any) -> None:
        if work is not self._work or self._closing:
            return
        if isinstance(result, SessionExpired):
            self._expired()
            return
        try:
            wanted = work.send(result)
        except StopIteration:
            self._work = None
            self._next()
            return
        if isinstance(wanted, _Sleep):
            self.pod.after(wanted.us, self._step, work, None)
            return
        assert self._session is not None, "work needs a session"
        self._ensemble.call(
            self._session,
            wanted.api,
            wanted.times,
            wanted.do,
            lambda got: self._step(work, got),
            writes=wanted.writes,
        )

    def _changed(self) -> None:
        """React to the event that the members have changed."""
        self._event = True
        self.environment.ledger.rejoining(self.pod.identity, True)
        if self._work is None:
            self._next()

    def _next(self) -> None:
        if self._event:
            self._event = False
            self._run(self._watch_and_rebalance())

    def _register(self) -> Steps:
        """Create the id node, watch, rebalance."""
        name = self.pod.identity
        ensemble = self._ensemble
        yield _Operation(
            "create", 1, lambda view: ensemble.set_members(view.members() | {name}), writes=True
        )
        yield from self._watch_and_rebalance()

    def _watch_and_rebalance(self) -> Steps:
        yield _Operation("getChildren", 2, self._watch)
        yield from self._rebalance()

    def _watch(self, _: View) -> None:
        assert self._session is not None, "a watch belongs to a session"
        self._session.watches = True

    def _rebalance(self) -> Steps:
        """Try up to four times."""
        ledger, parameters = self.environment.ledger, self.environment.parameters
        for _ in range(parameters.zk_retries):
            ledger.count.attempts += 1
            succeeded = yield from self._attempt()
            if succeeded:
                ledger.regained(self.pod.identity)
                ledger.rejoining(self.pod.identity, self._event)
                return
            self.environment.world.note("attempt fails", self.pod.identity)
            self._stop_fetchers()
            yield _Sleep(parameters.zk_backoff_ms * MS)
        ledger.gave_up(self.pod.identity)
        ledger.rejoining(self.pod.identity, self._event)

    def _attempt(self) -> Steps:
        """Make one attempt; return whether all partitions were claimed."""
        name, ensemble = self.pod.identity, self._ensemble
        workload = self.environment.workload
        brokers = 1 + _BROKERS
        yield _Operation("getData", 2 * brokers + 1, lambda _: None)
        owned = sorted(self._held.owned)
        changed = self._stop_fetchers()
        if changed:
            yield _Operation("setData", len(changed), _storing(ensemble, changed), writes=True)
        if owned:
            yield _Operation("delete", len(owned), self._release(owned), writes=True)
        topics = len(workload.counts)
        members = yield _Operation("getChildren", 2 + topics, lambda view: view.members())
        listed = yield _Operation("getData", len(members) + 1, lambda view: view.members())
        if not members <= listed:
            return False
        share = self._share(sorted(members))
        ledger = self.environment.ledger
        ledger.view(name, zlib.crc32(",".join(sorted(members)).encode()))
        if not share:
            return True
        offsets = yield _Operation(
            "getData", len(share), lambda view: {each: view.offset(each) for each in share}
        )
        claimed = yield _Operation("create", len(share), self._claim(share), writes=True)
        if not claimed:
            return False
        self._held.take(share)
        for partition in share:
            self._held.start(partition, offsets[partition])
            self._checkpoint[partition] = offsets[partition]
        return True

    def _share(self, members: list[str]) -> list[TopicPartition]:
        counts = self.environment.workload.counts
        subscriptions = [MemberSubscription(each, tuple(counts)) for each in members]
        return ASSIGNORS["range"](counts, subscriptions).get(self.pod.identity, [])

    def _release(self, owned: list[TopicPartition]) -> Callable[[View], None]:
        name, ensemble = self.pod.identity, self._ensemble

        def release(view: View) -> None:
            for partition in owned:
                if view.owner(partition) == name:
                    ensemble.set_owner(partition, None)

        return release

    def _claim(self, share: list[TopicPartition]) -> Callable[[View], bool]:
        name, ensemble = self.pod.identity, self._ensemble
        ignores = self.environment.parameters.fault == "ignore-conflicts"

        def claim(view: View) -> bool:
            taken = any(view.owner(each) not in (None, name) for each in share)
            if taken and not ignores:
                self.environment.world.note("conflict", name)
                return False
            for partition in share:
                ensemble.set_owner(partition, name)
            return True

        return claim

    # -- offsets -----------------------------------------------------------------------------------

    def _stop_fetchers(self) -> dict[TopicPartition, int]:
        """Stop all fetchers; return the offsets to store."""
        changed = {
            partition: offset
            for partition, offset in self._held.positions(self._held.reading).items()
            if self._checkpoint.get(partition) != offset
        }
        session = self._session
        if session is None or not session.alive:
            changed = {}
        self._held.stop(set(self._held.owned))
        self._checkpoint = {}
        return changed

    def _commit_on_time(self) -> None:
        period_ms = self.environment.parameters.commit_ms or _COMMIT_MS
        self.pod.after(period_ms * MS, self._commit_on_time)
        changed = self._held.positions(self._held.reading)
        if changed and self._session is not None and not self._closing:
            self._checkpoint.update(changed)
            store = _storing(self._ensemble, changed)
            session = self._session
            self._ensemble.call(session, "setData", len(changed), store, self._pinged, writes=True)


def _storing(ensemble: Ensemble, offsets: dict[TopicPartition, int]) -> Callable[[View], None]:
    """Return the operation that stores offsets."""

    def store(_: View) -> None:
        for partition, offset in offsets.items():
            ensemble.set_offset(partition, offset)

    return store
