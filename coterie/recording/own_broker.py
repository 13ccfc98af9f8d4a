"""Replays a recording to a fresh broker of ours, in memory and in virtual time."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.address import Address
from coterie.conversation.pipe import FrameEnd
from coterie.protocol.api_keys import ApiKey, is_declared
from coterie.protocol.errors import ErrorCode
from coterie.recording.conversation import Conversation, RecordedExchange
from coterie.recording.files import Recording
from coterie.recording.format import Flag, Header
from coterie.recording.internal_topics import InternalTopics
from coterie.recording.redaction import HIDDEN
from coterie.recording.replay import Listener, Replay, ReplayOutcome
from coterie.server.broker import Broker
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import find_key
from coterie.server.data_place import IN_MEMORY
from coterie.server.logging import make_logger
from coterie.server.logs.flusher import FlushMode
from coterie.server.network.connection import Connection
from coterie.server.shared_parts import SharedParts
from coterie.virtual.environment import SeededEnvironment
from coterie.virtual.loop import VirtualLoop

_NEVER = FlushMode(commit=False, interval_ms=None)
_LISTENER = "PLAINTEXT"
_DEFAULT_PORT = 9092
# Settings of the place where the recorded broker ran.
_OF_THE_PLACE = ("listeners", "log.dir", "security.protocol", "process.roles", "controller.")


class OwnBroker:
    """A broker of ours as the target of a replay.

    Attributes:
        listener: what it reports to.
    """

    listener: Listener

    def __init__(self, loop: VirtualLoop, broker: Broker, began_ms: int) -> None:
        """Replay to a broker that has begun; the recording began at `began_ms`."""
        self._loop = loop
        self._broker = broker
        self._began_ms = began_ms
        self._connections: dict[int, Connection] = {}

    async def open(self, connection: int, peer: str) -> None:
        """Connect in memory; see `Target`."""
        host, _, port = peer.rpartition(":")
        end = FrameEnd(
            (host or "127.0.0.1", int(port) if port.isdigit() else 0),
            lambda frame: self.listener.answered(connection, frame),
            lambda: self.listener.closed(connection),
        )
        self._connections[connection] = self._broker.accept(end)

    def send(self, connection: int, frame: bytes) -> None:
        """Pass a request to the connection; see `Target`."""
        self._connections[connection].data_received(frame)

    def close(self, connection: int) -> None:
        """End the connection; see `Target`."""
        self._connections[connection].close_quietly(abort=True)

    def serves(self, exchange: RecordedExchange) -> bool:
        """Return whether there is a codec; see `Target`."""
        if exchange.api is ApiKey.API_VERSIONS:
            return True
        return exchange.api is not None and is_declared(exchange.api, exchange.version)

    async def wait_until(self, at_ms: int) -> None:
        """Let virtual time pass; see `Target`."""
        ahead_s = (at_ms - self._began_ms) / 1000 - self._loop.time()
        # Also without a delay, so that what is ready is done first.
        await asyncio.sleep(max(0.0, ahead_s))


def replay_to_own(
    recording: Recording, conversation: Conversation, settings: Mapping[str, str]
) -> list[ReplayOutcome]:
    """Replay a recording to a fresh broker; return what became of each request.

    Args:
        recording, conversation: the recording, and what it holds.
        settings: of the broker, over those of the recording.

    Raises:
        ConfigError: a setting is invalid.
    """
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(_replay(loop, recording, conversation, settings))
    finally:
        loop.close()


async def _replay(
    loop: VirtualLoop,
    recording: Recording,
    conversation: Conversation,
    settings: Mapping[str, str],
) -> list[ReplayOutcome]:
    began_ms = recording.entries[0].at_ms if recording.entries else recording.header.started_ms
    environment = SeededEnvironment(
        loop,
        make_logger("error"),
        seed=0,
        now_ms=lambda: began_ms + int(loop.time() * 1000),
        monotonic_s=loop.time,
    )
    values = _settings(recording.header, conversation, settings)
    config = Config.load([f"{name}={value}" for name, value in values.items()])
    broker = Broker(SharedParts(config, IN_MEMORY, environment, flush=_NEVER))
    broker.advertise(_LISTENER, _address(recording.header))
    for name, partitions in topics_before(conversation).items():
        if name not in broker.topics.by_name:
            broker.controller.create(name, partitions, {})
    await broker.begin()
    # The time that the start took counts for nothing.
    target = OwnBroker(loop, broker, began_ms)
    replay = Replay(conversation, target, recording.header)
    outcomes = await replay.run()
    await broker.stop()
    return outcomes


def _settings(
    header: Header, conversation: Conversation, settings: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings of the fresh broker: those of the recorded one that it has, too."""
    values = {
        name: value
        for name, value in header.settings.items()
        if value != HIDDEN
        and find_key(name) is not None
        and not any(part in name for part in _OF_THE_PLACE)
    }
    nodes = {
        broker.node_id
        for response in _responses(conversation, ApiKey.METADATA)
        for broker in response.brokers
    }
    if len(nodes) == 1 and "node.id" not in values:
        values["node.id"] = str(*nodes)
    return {**values, **settings}


def _address(header: Header) -> Address:
    try:
        return Address.parse(header.address)
    except ValueError:
        return Address("127.0.0.1", _DEFAULT_PORT)


def topics_before(conversation: Conversation) -> dict[str, int]:
    """Return the topics that the recorded broker had, with their numbers of partitions.

    A topic was there if the first answer that names it describes it and neither a request nor a
    streams group has created it before.
    """
    found: dict[str, int] = {}
    later: set[str] = set()
    internal = InternalTopics()
    for exchange in conversation.exchanges:
        response: Any = exchange.response
        later |= internal.created_after(exchange) - found.keys()
        if response is None:
            continue
        if exchange.api is ApiKey.CREATE_TOPICS:
            later |= {topic.name for topic in response.topics if not topic.error_code}
        elif exchange.api is ApiKey.METADATA:
            for topic in response.topics:
                if topic.error_code:
                    later.add(topic.name)
                elif topic.name not in later and not topic.is_internal:
                    found.setdefault(topic.name, len(topic.partitions))
        else:
            _add_mentioned(exchange, found, later)
    return found


def _add_mentioned(exchange: RecordedExchange, found: dict[str, int], later: set[str]) -> None:
    """Add the topics that a response without errors mentions; their partitions may be more."""
    for name, index in _mentions(exchange.response):
        if name and name not in later:
            found[name] = max(found.get(name, 0), index + 1)


def _mentions(response: Any) -> Iterable[tuple[str, int]]:
    topics: list[Any] = getattr(response, "topics", None) or getattr(response, "responses", [])
    for topic in topics:
        name = str(getattr(topic, "name", None) or getattr(topic, "topic", ""))
        for field in ("partitions", "partition_responses"):
            for each in getattr(topic, field, ()):
                index: int = getattr(each, "partition_index", getattr(each, "index", -1))
                if getattr(each, "error_code", -1) == ErrorCode.NONE and index >= 0:
                    yield name, index


def _responses(conversation: Conversation, api: ApiKey) -> list[Any]:
    return [
        each.response
        for each in conversation.exchanges
        if each.api is api and each.response is not None
        if not each.response_flags & Flag.REDACTED
    ]
