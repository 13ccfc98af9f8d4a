"""Sends the requests of a recording again, and compares the answers.

Requests are sent in the recorded order and, as far as the target allows, at the recorded times. An
answer that the recording has before a request is waited for, because the request may depend on it.
"""

import asyncio
from typing import Any, NamedTuple, Protocol

from coterie.conversation.identities import Identities
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.wire import Message
from coterie.recording.batches import rebuilt, with_producers
from coterie.recording.comparison import Comparison, Difference
from coterie.recording.conversation import Conversation, RecordedExchange
from coterie.recording.format import Flag, Header, Kind
from coterie.recording.several_brokers import (
    fit_to_one,
    reason_to_skip,
    refusal_of_another,
    without_places,
)

_LENGTH_BYTES = 4
# How long after its recorded time an answer is waited for before the replay goes on.
_PATIENCE_S = 5.0
# A request that is refused with these has no effect, and the client repeats it. A fresh broker of
# ours is always ready, so it would do what the recorded one has not done.
_UNREADY = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class Listener(Protocol):
    """What a target reports to."""

    def answered(self, connection: int, frame: bytes) -> None:
        """Take a frame of the broker."""

    def closed(self, connection: int) -> None:
        """Note that the broker has closed a connection."""


class Target(Protocol):
    """The broker to which a recording is replayed."""

    listener: Listener

    async def open(self, connection: int, peer: str) -> None:
        """Connect; `peer` is the recorded address of the client."""

    def send(self, connection: int, frame: bytes) -> None:
        """Send a request, with its length."""

    def close(self, connection: int) -> None:
        """Disconnect."""

    def serves(self, exchange: RecordedExchange) -> bool:
        """Return whether the broker serves the API and version of a request."""

    async def wait_until(self, at_ms: int) -> None:
        """Return when the recorded time has come."""


class ReplayOutcome:
    """What became of an exchange in the replay.

    Attributes:
        exchange: the recorded one.
        response: the replayed response; None if there was none.
        differences: how it differs.
        skipped: why the request was not sent; empty if it was.
    """

    def __init__(self, exchange: RecordedExchange) -> None:
        """Begin without a response."""
        self.exchange = exchange
        self.response: Message | None = None
        self.differences: list[Difference] = []
        self.skipped = ""
        self.answered = asyncio.Event()

    @property
    def differs(self) -> bool:
        """Whether the broker answered otherwise than the recorded one."""
        return bool(self.differences)


class Replay:
    """One replay of one conversation."""

    def __init__(self, conversation: Conversation, target: Target, header: Header) -> None:
        """Prepare; `run` replays."""
        with_payloads = header.with_payloads
        self._is_of_several = header.brokers is not None
        self._conversation = conversation
        self._target = target
        target.listener = self
        self.identities = Identities()
        self._comparison = Comparison(self.identities, with_payloads=with_payloads)
        self._with_payloads = with_payloads
        self.outcomes = {each.number: ReplayOutcome(each) for each in conversation.exchanges}
        # The requests without an answer, by connection.
        self._awaited: dict[int, list[ReplayOutcome]] = {}
        self._open: set[int] = set()

    async def run(self) -> list[ReplayOutcome]:
        """Replay everything; return the outcomes in the order of the requests.

        Raises:
            OSError: the target cannot be reached.
        """
        for step in self._conversation.steps:
            await self._target.wait_until(step.at_ms)
            if step.kind is Kind.OPENED:
                await self._opened(step.connection, step.peer)
            elif step.kind is Kind.CLOSED:
                if step.connection in self._open:
                    self._open.discard(step.connection)
                    self._target.close(step.connection)
            elif step.exchange is not None and step.kind is Kind.REQUEST:
                self._send(self.outcomes[step.exchange.number])
                await asyncio.sleep(0)
            elif step.exchange is not None:
                await self._expect(self.outcomes[step.exchange.number])
        for outcome in self.outcomes.values():
            self._note_missing(outcome)
        for connection in list(self._open):
            self._target.close(connection)
        return list(self.outcomes.values())

    async def _opened(self, connection: int, peer: str) -> None:
        self._open.add(connection)
        self._awaited[connection] = []
        await self._target.open(connection, peer)

    def _send(self, outcome: ReplayOutcome) -> None:
        exchange = outcome.exchange
        outcome.skipped = self._reason_to_skip(exchange)
        if outcome.skipped:
            return
        frame = self._frame(exchange)
        if not _has_no_response(exchange):
            self._awaited[exchange.connection].append(outcome)
        self._target.send(exchange.connection, len(frame).to_bytes(_LENGTH_BYTES) + frame)

    def _reason_to_skip(self, exchange: RecordedExchange) -> str:
        if exchange.flags & Flag.REDACTED:
            return "the recording does not have its body"
        if exchange.flags & Flag.HIDDEN:
            return "the recording does not have its values"
        if exchange.api is None or not self._target.serves(exchange):
            return f"{exchange.name} v{exchange.version} is not served"
        refusal = refusal_of_unready(exchange.response)
        if refusal:
            return f"the recorded coordinator was not ready: {refusal}"
        if exchange.connection not in self._open:
            return "its connection is closed"
        return reason_to_skip(exchange) if self._is_of_several else ""

    def _frame(self, exchange: RecordedExchange) -> bytes:
        """Return a request as it is sent: with the ids of the replay [recording/ids]."""
        if exchange.request is None:
            return exchange.frame
        request: Any = type(exchange.request).decode(
            exchange.frame, exchange.version, exchange.body_at
        )
        self.identities.substitute(request)
        if self._is_of_several:
            fit_to_one(request)
        if exchange.api is ApiKey.PRODUCE:
            if not self._with_payloads:
                rebuilt(request)
            with_producers(request, self.identities)
        return exchange.frame[: exchange.body_at] + bytes(request.encode(exchange.version))

    async def _expect(self, outcome: ReplayOutcome) -> None:
        """Wait for an answer that was recorded before the next request."""
        if outcome.skipped or outcome.answered.is_set():
            return
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await outcome.answered.wait()
        except TimeoutError:
            return

    def _note_missing(self, outcome: ReplayOutcome) -> None:
        exchange = outcome.exchange
        is_missing = not outcome.skipped and not outcome.answered.is_set()
        if is_missing and exchange.answered_at_ms is not None:
            outcome.differences.append(Difference("response", "an answer", "none"))
            # Closing the connection below says it no second time.
            outcome.answered.set()

    # --- called by the target ---------------------------------------------------------------------

    def answered(self, connection: int, frame: bytes) -> None:
        """Take a frame: answers come in the order of the requests."""
        awaited = self._awaited[connection]
        if not awaited:
            return
        outcome = awaited.pop(0)
        exchange = outcome.exchange
        outcome.response = exchange.decoded(frame)
        outcome.answered.set()
        if exchange.answered_at_ms is None or exchange.response_flags & Flag.REDACTED:
            return
        if exchange.response is None or outcome.response is None:
            if (exchange.response is None) != (outcome.response is None):
                known = ("an answer that can be decoded", "one that cannot")
                one, other = known if exchange.response is not None else known[::-1]
                outcome.differences.append(Difference("response", one, other))
            return
        found = self._comparison.differences(exchange.response, outcome.response, exchange.version)
        if self._is_of_several:
            is_elsewhere = refusal_of_another(exchange.response)
            found = [] if is_elsewhere else without_places(found)
        outcome.differences = found

    def closed(self, connection: int) -> None:
        """Note that no answer can come any more."""
        self._open.discard(connection)
        for outcome in self._awaited.pop(connection, ()):
            if outcome.exchange.answered_at_ms is not None and not outcome.answered.is_set():
                closed = "the connection was closed"
                outcome.differences.append(Difference("response", "an answer", closed))
                outcome.answered.set()
        self._awaited[connection] = []


class Result(NamedTuple):
    """What a replay has found, in numbers."""

    requests: int
    equal: int
    different: int
    skipped: int


def result_of(outcomes: list[ReplayOutcome]) -> Result:
    """Count the outcomes."""
    different = sum(each.differs for each in outcomes)
    skipped = sum(bool(each.skipped) for each in outcomes)
    return Result(len(outcomes), len(outcomes) - different - skipped, different, skipped)


def refusal_of_unready(response: Any) -> str:
    """Return the error with which a coordinator refuses everything until it is ready; or none."""
    codes = [getattr(response, "error_code", 0)]
    for field in ("groups", "coordinators", "results"):
        codes += [getattr(each, "error_code", 0) for each in getattr(response, field, ())]
    for topic in getattr(response, "topics", ()):
        codes += [getattr(each, "error_code", 0) for each in getattr(topic, "partitions", ())]
    refusals = [ErrorCode(code).name for code in codes if code in _UNREADY]
    return refusals[0] if refusals and len(refusals) == len([c for c in codes if c]) else ""


def _has_no_response(exchange: RecordedExchange) -> bool:
    return exchange.api is ApiKey.PRODUCE and getattr(exchange.request, "acks", -1) == 0
