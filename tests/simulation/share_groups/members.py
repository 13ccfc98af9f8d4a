"""Members of share groups: they join, fetch from each leader, acknowledge well or badly, and go.

A member has a share session at each broker, which ends with the connection. What it was given it
accepts, releases, rejects, renews or reports as a gap, in ranges or record by record, in a fetch or
by itself, in time or too late, or never.
"""

from typing import TYPE_CHECKING, Any

from coterie.coordinator.share_partition.states import AcknowledgeType
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
)
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch
from coterie.protocol.records import iterate_batches
from tests.simulation.brokers.clients import MOVED, Ask, Client, Steps
from tests.simulation.brokers.members import happens
from tests.simulation.checks.violation import require
from tests.simulation.share_groups.ledger import (
    REFUSALS,
    Acknowledgement,
    Moment,
    Place,
    ShareLedger,
)

if TYPE_CHECKING:
    from tests.simulation.brokers.lines import Line
    from tests.simulation.share_groups.world import ShareWorld

_HEARTBEAT_MS = 500
_FINAL_EPOCH = -1
_ACCEPT, _RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RENEW
# A member begins anew after these.
_NOT_A_MEMBER = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_NO_SESSION = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
# What a partition may be answered; it is asked for again after any of them.
_PASSING = MOVED | {
    # Its state is not initialized yet, or its leader epoch was older than that of its successor.
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.GROUP_ID_NOT_FOUND,
}
# What may be said about records of a partition.
_ANSWERS = (*_PASSING, *REFUSALS, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

# The types by offset.
_Types = dict[int, int]


class _Session:
    """A share session.

    Attributes:
        line: the connection that has opened it.
        epoch: the epoch of the next request.
        places: its partitions.
    """

    def __init__(self, line: "Line") -> None:
        self.line = line
        self.epoch = 1
        self.places: set[Place] = set()


class ShareMember:
    """A member of a share group, again and again.

    Attributes:
        client: the client that it is; set when that has begun.
    """

    client: Client

    def __init__(self, world: "ShareWorld", name: str, ledger: ShareLedger) -> None:
        self._world = world
        self._name = name
        self._ledger = ledger
        self._lives = 0
        self._member_id = name
        self._epoch = 0
        self._beats_ms = 0.0
        self._sessions: dict[int, _Session] = {}
        # What it was given and has not decided, by partition.
        self._held: dict[Place, set[int]] = {}

    def steps(self) -> Steps:
        """Live, and live again."""
        world = self._world
        while True:
            self._epoch, self._beats_ms = 0, 0.0
            if world.chance.random() < 0.5:
                self._lives += 1
                self._member_id = f"{self._name}.{self._lives}"
            yield from self._live()
            yield world.chance.randint(1, 1_000)

    def _live(self) -> Steps:
        world = self._world
        while not happens(world, 0.004):
            if world.now_ms >= self._beats_ms and not (yield from self._beat()):
                return
            node_id = world.chance.choice(world.node_ids)
            yield from self._work(node_id)
            yield world.chance.choice((0, 5, 30, 100))
        # It dies, or leaves in order, or its sessions only end.
        if world.chance.random() < 0.5:
            for node_id in list(self._sessions):
                yield from self._close(node_id)
            yield Ask(self._heartbeat(-1, None), 1)
        for node_id in list(self._sessions):
            self._lose(node_id)

    # --- membership -------------------------------------------------------------------------------

    def _heartbeat(self, epoch: int, topics: list[str] | None) -> ShareGroupHeartbeatRequest:
        return ShareGroupHeartbeatRequest(
            group_id=self._ledger.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
        )

    def _beat(self) -> Steps:
        """Send a heartbeat; return whether it is a member."""
        world = self._world
        topics = None if self._epoch else list(world.shared_topics)
        answer = yield Ask(self._heartbeat(self._epoch, topics), 1)
        if answer is None:
            return True
        if answer.error_code in _NOT_A_MEMBER:
            return False
        if answer.error_code:
            known = answer.error_code in MOVED
            require(known, "H8", f"{self._name} is answered {answer}")
            return True
        self._epoch, self._beats_ms = answer.member_epoch, world.now_ms + _HEARTBEAT_MS
        return True

    # --- sessions ---------------------------------------------------------------------------------

    def _lose(self, node_id: int) -> None:
        """Lose the connection with a broker."""
        line = self.client.line_to(node_id)
        if line is not None:
            line.lose()
        self._forget(node_id)

    def _forget(self, node_id: int) -> None:
        """Forget a session that is over, and what was fetched in it."""
        session = self._sessions.pop(node_id, None)
        if session is not None:
            self._ledger.ended(self._member_id, session.places)
            for place in session.places:
                self._held.pop(place, None)

    def _session(self, node_id: int) -> _Session | None:
        session = self._sessions.get(node_id)
        if session is not None and (not session.line.is_usable or happens(self._world, 0.01)):
            # It may open another one in its place; what it holds stays locked then.
            if session.line.is_usable:
                self._ledger.ended(self._member_id, session.places, forgets=True)
                self._sessions.pop(node_id)
                for place in session.places:
                    self._held.pop(place, None)
            else:
                self._forget(node_id)
            return None
        return session

    def _close(self, node_id: int) -> Steps:
        """End a session in order, with some acknowledgements."""
        session = self._sessions[node_id]
        # Locks are not renewed at the end.
        told = {
            place: {offset: kind % _RENEW for offset, kind in types.items()}
            for place, types in self._decided(session).items()
        }
        request = ShareAcknowledgeRequest(
            group_id=self._ledger.group_id,
            member_id=self._member_id,
            share_session_epoch=_FINAL_EPOCH,
            topics=self._topics(
                told, session.line, ShareAcknowledgeTopic, ShareAcknowledgePartition
            ),
        )
        said = self._said(told, session.line)
        self._ledger.ended(self._member_id, session.places)
        answer = yield Ask(request, self._world.chance.choice((1, 2)), node_id=node_id)
        self._take_results(said, answer, "error_code")
        self._forget(node_id)

    # --- work -------------------------------------------------------------------------------------

    def _work(self, node_id: int) -> Steps:
        """Fetch from a broker, or tell it what became of records."""
        world = self._world
        session = self._session(node_id)
        if session is not None and happens(world, 0.05):
            # Locks end meanwhile.
            yield world.chance.choice((200, 1_200, 3_500))
            session = self._session(node_id)
        told = {} if session is None else self._decided(session)
        if session is not None and told and world.chance.random() < 0.5:
            yield from self._acknowledge(node_id, session, told)
        else:
            yield from self._fetch(node_id, session, told)

    def _acknowledge(self, node_id: int, session: _Session, told: dict[Place, _Types]) -> Steps:
        renews = any(_RENEW in types.values() for types in told.values())
        request = ShareAcknowledgeRequest(
            group_id=self._ledger.group_id,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            is_renew_ack=renews,
            topics=self._topics(
                told, session.line, ShareAcknowledgeTopic, ShareAcknowledgePartition
            ),
        )
        said = self._said(told, session.line)
        version = 2 if renews else self._world.chance.choice((1, 2))
        answer = yield Ask(request, version, node_id=node_id)
        self._take_results(said, answer, "error_code")
        self._went_on(node_id, session, answer)

    def _fetch(self, node_id: int, session: _Session | None, told: dict[Place, _Types]) -> Steps:
        world, chance = self._world, self._world.chance
        led = world.led_by(node_id)
        before = set() if session is None else session.places
        leaving = [each for each in sorted(before) if each not in led or happens(world, 0.02)]
        wanted = [each for each in led if each not in before]
        if happens(world, 0.05):
            # It has heard of an older leader.
            wanted = [chance.choice(world.places)]
        places = {**told, **{each: told.get(each, {}) for each in wanted}}
        if not places and not before:
            return
        renews = any(_RENEW in types.values() for types in told.values())
        limits = (50, 1, 1 << 20, 500)
        if renews:
            limits = (0, 0, 0, 0)
        elif not world.is_calm:
            limits = (
                chance.choice((0, 50, 500)),
                chance.choice((1, 1, 400)),
                chance.choice((1 << 20, 1 << 20, 300)),
                chance.choice((1, 3, 40, 500)),
            )
        line = self.client.line_to(node_id) or world.line_of(self.client, node_id)
        if line is None or (session is not None and line is not session.line):
            self._forget(node_id)
            return
        opens = session is None
        if opens:
            session = _Session(line)
            session.epoch = 0
        assert session is not None
        self._ledger.ended(self._member_id, leaving, forgets=True)
        for place in leaving:
            self._held.pop(place, None)
        request = ShareFetchRequest(
            group_id=self._ledger.group_id,
            member_id=self._member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=limits[0],
            min_bytes=limits[1],
            max_bytes=limits[2],
            max_records=limits[3],
            batch_size=chance.choice((1, 5, 500)),
            share_acquire_mode=chance.choice((0, 0, 1)),
            is_renew_ack=renews,
            topics=self._topics(places, line, ShareFetchTopic, ShareFetchPartition),
            forgotten_topics_data=[
                ShareForgottenTopic(topic_id=world.topic_id(topic), partitions=[index])
                for topic, index in leaving
                if not opens
            ],
        )
        said = self._said(told, line)
        session.places = (before | set(places)) - set(leaving)
        moments = {each: self._ledger.moment(each, line) for each in session.places | before}
        answer = yield Ask(request, 2 if renews else chance.choice((1, 2, 2)), node_id=node_id)
        self._take_results(said, answer, "acknowledge_error_code")
        if answer is None:
            self._ledger.lost(session.places)
        if opens and answer is not None and not answer.error_code:
            self._sessions[node_id] = session
        if answer is not None and not answer.error_code:
            self._take_records(answer, moments, session)
        self._went_on(node_id, session, answer)

    def _went_on(self, node_id: int, session: _Session, answer: Any) -> None:
        """Expect the next epoch, or the end of the session."""
        if answer is None:
            self._ledger.ended(self._member_id, session.places)
            self._forget(node_id)
        elif answer.error_code:
            known = answer.error_code in _NO_SESSION
            require(known, "H8", f"{self._name} is answered {answer}")
            self._forget(node_id)
        else:
            session.epoch += 1

    def _take_records(self, answer: Any, moments: dict[Place, Moment], session: _Session) -> None:
        world = self._world
        for topic in answer.responses:
            name = world.topic_name(topic.topic_id)
            for part in topic.partitions:
                place = name, part.partition_index
                error = ErrorCode(part.error_code)
                if error:
                    known = error in _PASSING
                    require(known, "H8", f"{self._name} is answered {error} for {place}")
                    self._ledger.counted[f"not fetched: {error.name}"] += 1
                    continue
                _check_data(part, place)
                for each in part.acquired_records:
                    self._ledger.delivered(
                        self._member_id, place, each.first_offset, each.last_offset,
                        each.delivery_count, moments[place],
                    )  # fmt: skip
                    offsets = range(each.first_offset, each.last_offset + 1)
                    self._held.setdefault(place, set()).update(offsets)
                    session.places.add(place)

    # --- acknowledgements -------------------------------------------------------------------------

    def _decided(self, session: _Session) -> dict[Place, _Types]:
        """Decide about some of what it holds; return the types."""
        world, chance = self._world, self._world.chance
        decided: dict[Place, _Types] = {}
        for place in sorted(session.places):
            held = sorted(self._held.get(place, ()))
            if happens(world, 0.02):
                # It has none of these.
                first = chance.randint(0, 40)
                decided[place] = dict.fromkeys(range(first, first + 3), int(_ACCEPT))
                continue
            if not held or happens(world, 0.3):
                continue
            if happens(world, 0.4):
                first = chance.randrange(len(held))
                held = held[first : first + chance.randint(1, len(held))]
            kinds: tuple[int, ...] = (1,)
            if happens(world, 0.5):
                kinds = chance.choice(((1,), (2,), (3,), (0,), (4,), (1, 2), (0, 1, 2, 3, 4)))
            if len(kinds) == 1:
                decided[place] = dict.fromkeys(held, kinds[0])
            else:
                decided[place] = {each: chance.choice(kinds) for each in held}
            renewed = {each for each, kind in decided[place].items() if kind == _RENEW}
            self._held[place] -= set(held) - renewed
        return decided

    def _said(self, told: dict[Place, _Types], line: "Line") -> dict[Place, Acknowledgement]:
        return {
            place: self._ledger.acknowledging(
                self._member_id, place, types, self._ledger.moment(place, line)
            )
            for place, types in told.items()
            if types
        }

    def _topics(self, told: dict[Place, _Types], line: "Line", topic: Any, part: Any) -> list[Any]:
        """Return partitions with what is acknowledged of them, as parts of a request."""
        world = self._world
        parts: dict[str, list[Any]] = {}
        for (name, index), types in told.items():
            batches = [
                AcknowledgementBatch.of(offsets[0], offsets[-1], kinds)
                for offsets, kinds in _ranges(types, world.chance.random() < 0.5)
            ]
            parts.setdefault(name, []).append(
                part(partition_index=index, acknowledgement_batches=batches)
            )
        return [
            topic(topic_id=world.topic_id(name), partitions=found) for name, found in parts.items()
        ]

    def _take_results(self, said: dict[Place, Acknowledgement], answer: Any, field: str) -> None:
        """Take what was answered to acknowledgements."""
        results: dict[Place, int] = {}
        if answer is not None and not answer.error_code:
            for topic in answer.responses:
                name = self._world.topic_name(topic.topic_id)
                for part in topic.partitions:
                    results[name, part.partition_index] = getattr(part, field)
            missing = said.keys() - results.keys()
            require(not missing, "H8", f"{missing} were acknowledged and have no answer")
        for place, each in said.items():
            error = results.get(place)
            if error is not None:
                known = error in _ANSWERS
                require(known, "H8", f"acknowledging {place} is answered {error}")
            self._ledger.taken(each, error)


def _ranges(types: _Types, is_each: bool) -> list[tuple[list[int], list[int]]]:
    """Return ranges without holes, each with one type, or with one for each offset."""
    found: list[tuple[list[int], list[int]]] = []
    for offset in sorted(types):
        kind = types[offset]
        if found and found[-1][0][-1] + 1 == offset and (is_each or found[-1][1] == [kind]):
            found[-1][0].append(offset)
            if is_each:
                found[-1][1].append(kind)
        else:
            found.append(([offset], [kind]))
    return found


def _check_data(part: Any, place: Place) -> None:
    """The batches of an answer have what was acquired, from the first record to the last (H9)."""
    acquired = part.acquired_records
    if not acquired:
        require(not part.records, "H9", f"{place} has records and acquired none")
        return
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    headers = [header for _, header in iterate_batches(part.records)]
    covered = bool(headers) and headers[-1].last_offset >= last
    covered = covered and headers[0].base_offset <= first <= headers[0].last_offset
    require(covered, "H9", f"{place}: {headers} do not have {first} to {last}")
