"""Logins with changed bytes: nothing of a peer that has not logged in reaches a handler.

A conversation is the one of a client that logs in, with each mechanism, right and wrong. One of its
messages is changed, as a token or as a frame; the client goes on with the answers that it gets. A
request is sent behind each message, which must not be handled before the login.
"""

import random
import tracemalloc
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coterie.address import Address
from coterie.coordinator.kernel.request import ANONYMOUS
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import DECODE_ERRORS
from coterie.protocol.frames import decode_response
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.protocol.messages.security_records import DelegationTokenRecord
from coterie.security.mechanisms import Mechanism
from coterie.server.config.listeners import Listener, SecurityProtocol
from coterie.server.network.route import Handler
from coterie.server.network.routes import Overlay
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding
from tests.unit.security.test_oauthbearer import message
from tests.unit.security.test_scram import proof
from tests.unit.server.logins import ALICE, SETTINGS, add_scram, frame_of, framed
from tests.unit.server.manual import FakeTransport, log_of, loop_of, make_broker
from tests.unit.server.manual_loop import START_MS
from tests.unit.server.test_signed_tokens import key_set, settings, signed

# What a login may take at most, beside some copies of what was sent.
MOST_BYTES = 2 << 20
_COPIES = 8
# Memory is measured for one in so many conversations, because that takes long. Some of these have
# long tokens.
_METERED = 50
# Tokens of nearly, and of more than, `sasl.server.max.receive.size`.
_LONG = (70_000, 524_000, 530_000)
_TOKEN_ID = "token"
_BEHIND = framed(MetadataRequest(topics=None), 9)
_VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")

# Yields requests, or bare tokens; gets what was answered to each.
Conversation = Generator[Any, bytes, None]


def _authenticate(token: bytes) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(auth_bytes=token)


def _one_token(mechanism: str, token: bytes) -> Conversation:
    yield _VERSIONS
    yield SaslHandshakeRequest(mechanism=mechanism)
    yield _authenticate(token)
    # As clients of OAUTHBEARER do after a refusal.
    yield _authenticate(b"\1")


def _bare(token: bytes) -> Conversation:
    yield frame_of(bytes.fromhex("00110000000000010001630005504c41494e"))
    yield frame_of(token)


def _scram(mechanism: Mechanism, name: str, password: str, extensions: str = "") -> Conversation:
    yield SaslHandshakeRequest(mechanism=mechanism.value)
    bare = f"n={name},r=abc{extensions}"
    answered = yield _authenticate(f"n,,{bare}".encode())
    first = decode_response(SaslAuthenticateResponse, answered[4:], 2)[1].auth_bytes.decode()
    final = f"c=biws,{first.split(',')[0]}"
    signature = proof(mechanism, password, bare, first, final)
    yield _authenticate(f"{final},p={signature}".encode())


def _with_token(hmac: bytes) -> Conversation:
    password = b64encode(hmac).decode()
    return _scram(Mechanism.SCRAM_SHA_512, _TOKEN_ID, password, ",tokenauth=true")


class LoginTarget:
    """A broker whose listener has every mechanism.

    Attributes:
        outcomes: how many conversations ended how.
        peak_bytes: the most memory that one of them took.
    """

    def __init__(self, seed: int) -> None:
        """Start a broker with users, a token and keys."""
        self.outcomes: Counter[str] = Counter()
        self.peak_bytes = 0
        self._is_metered = False
        self._was_closed = False
        self._chance = random.Random(seed)
        self._handled: list[tuple[ApiKey, str]] = []
        with TemporaryDirectory() as directory:
            file = Path(directory, "keys.json")
            file.write_text(key_set("rsa", "ec"))
            self._start(f"file://{file}")
        self._conversations = self._every_conversation()
        frames = [
            framed(_VERSIONS, 3),
            framed(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1),
            framed(_authenticate(ALICE), 2),
            framed(_authenticate(b"n,,n=fixed,r=abc,tokenauth=true"), 2),
        ]
        self._mutator = Mutator(frames, seed)

    def _start(self, url: str) -> None:
        mechanisms = ",".join(each.value for each in Mechanism)
        self._broker = make_broker(
            {
                **SETTINGS,
                **settings(url),
                "sasl.enabled.mechanisms": mechanisms,
                "delegation.token.secret.key": "secret-of-tokens",
            }
        )
        add_scram(self._broker, "fixed", "pencil")
        self._broker.tokens.replay(
            DelegationTokenRecord(
                owner="User:owner",
                requester="User:owner",
                renewers=[],
                issue_timestamp=START_MS,
                max_timestamp=START_MS * 2,
                expiration_timestamp=START_MS * 2,
                token_id=_TOKEN_ID,
            )
        )
        self._broker.use_routes(
            Overlay(self._broker.routes, {api: self._noting(api) for api in SERVED_VERSIONS})
        )
        listener = Listener(Address("127.0.0.1", 0), "SASL", SecurityProtocol.SASL_PLAINTEXT)
        self._accept = self._broker.factory_of(listener)

    def _noting(self, api: ApiKey) -> Callable[[Handler], Handler]:
        def wrap(below: Handler) -> Handler:
            def handle(broker: Any, request: Any, connection: Any) -> Any:
                self._handled.append((api, connection.client.principal))
                return below(broker, request, connection)

            return handle

        return wrap

    def _every_conversation(self) -> list[tuple[str, Callable[[], Conversation]]]:
        """Return who may be logged in behind each conversation, and what begins it."""
        seconds = START_MS // 1000
        claims: dict[str, Any] = {"iat": seconds - 1, "exp": seconds + 10**6}
        right, other = signed(**claims), signed("ec", "ES256", **claims)
        wrong, hmac = signed("new", "ES256", "ec", **claims), self._broker.tokens.hmac(_TOKEN_ID)
        sha_256, sha_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512
        return [
            ("User:alice", lambda: _one_token("PLAIN", ALICE)),
            ("", lambda: _one_token("PLAIN", b"\0alice\0wrong")),
            ("", lambda: _one_token("PLAIN", b"bob" + ALICE)),
            ("User:alice", lambda: _bare(ALICE)),
            ("User:fixed", lambda: _scram(sha_256, "fixed", "pencil")),
            ("User:fixed", lambda: _scram(sha_512, "fixed", "pencil", ",a=b")),
            ("", lambda: _scram(sha_256, "fixed", "wrong")),
            ("", lambda: _scram(sha_512, "nobody", "pencil")),
            ("User:owner", lambda: _with_token(hmac)),
            ("", lambda: _with_token(bytes(64))),
            ("User:alice", lambda: _one_token("OAUTHBEARER", message(right))),
            ("User:alice", lambda: _one_token("OAUTHBEARER", message(other))),
            ("", lambda: _one_token("OAUTHBEARER", message(wrong))),
        ]

    def feed(self) -> None:
        """Let a client log in with a changed message.

        Raises:
            Finding: something was handled, an exception escaped, or too much memory was taken.
        """
        chance = self._chance
        principal, begin = chance.choice(self._conversations)
        self._is_metered = chance.random() < 1 / _METERED
        if self._is_metered:
            tracemalloc.start()
        sent = bytearray()
        try:
            self._converse(begin(), sent)
            peak_bytes = tracemalloc.get_traced_memory()[1] if self._is_metered else 0
        except Finding:
            raise
        except Exception as error:
            raise Finding(bytes(sent), f"{type(error).__name__} escaped: {error}") from error
        finally:
            tracemalloc.stop()
        self.peak_bytes = max(self.peak_bytes, peak_bytes)
        if peak_bytes > MOST_BYTES + _COPIES * len(sent):
            raise Finding(bytes(sent), f"a login took {peak_bytes:,} bytes")
        self._check(bytes(sent), principal)

    def _converse(self, conversation: Conversation, sent: bytearray) -> None:
        """Send the messages, one of them changed."""
        chance = self._chance
        self._handled.clear()
        log_of(self._broker).lines.clear()
        self._broker.connection_quotas._close_lines = 0
        transport = FakeTransport()
        protocol = self._accept()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        changed, number, step = chance.randrange(6), 0, next(conversation)
        while not transport.closed and step is not None:
            data = self._bytes(step, is_changed=number == changed)
            if chance.random() < 0.1:
                data += _BEHIND
            sent += data
            self._send(transport, data)
            number += 1
            answer = b"".join(transport.written)
            transport.written.clear()
            try:
                step = conversation.send(answer)
            except (StopIteration, *DECODE_ERRORS, ValueError, KeyError):
                # It is over, or the client does not understand the answer.
                step = None
        self._send(transport, _BEHIND)
        self._was_closed = transport.closed
        assert transport.protocol is not None, "it has one"
        transport.protocol.connection_lost(None)

    def _send(self, transport: FakeTransport, data: bytes) -> None:
        """Send bytes in two pieces."""
        cut = self._chance.randrange(len(data))
        for piece in (data[:cut], data[cut:]):
            assert transport.protocol is not None, "it has one"
            if piece and not transport.closed:
                transport.protocol.data_received(piece)
        loop_of(self._broker).turn()

    def _bytes(self, step: Any, *, is_changed: bool) -> bytes:
        """Return the frame of a message, changed inside, outside or not at all."""
        chance, mutator = self._chance, self._mutator
        if isinstance(step, bytes):
            return frame_of(mutator.changed(step[4:], is_changed))
        if is_changed and isinstance(step, SaslAuthenticateRequest) and chance.random() < 0.7:
            token = mutator.changed(step.auth_bytes, chance.choice((1, 1, 2, 5)))
            if self._is_metered and chance.random() < 0.5:
                token += token[-1:] * chance.choice(_LONG)
            step = _authenticate(token)
            is_changed = False
        version = {ApiVersionsRequest: 3, SaslHandshakeRequest: 1}.get(type(step), 2)
        frame = framed(step, version)
        return (
            frame_of(mutator.changed(frame[4:], chance.choice((1, 1, 2)))) if is_changed else frame
        )

    def _check(self, sent: bytes, principal: str) -> None:
        log, quotas = log_of(self._broker), self._broker.connection_quotas
        for event in ("login failed by a mistake", "request failed"):
            for fields in log.named(event):
                raise Finding(sent, f"{event}: {fields['exc_info']!r}")
        behind = [each for each in self._handled if each[0] is not ApiKey.API_VERSIONS]
        for api, who in self._handled:
            if who not in (principal, ANONYMOUS) or (who == ANONYMOUS and (api, who) in behind):
                raise Finding(sent, f"{api.kafka_name} was handled for {who}")
        if self._was_closed and len(log.named("connection closed")) != 1:
            raise Finding(sent, f"a connection was closed with the lines {log.lines}")
        if quotas.buffered_bytes or len(quotas) or self._broker.logins.held:
            raise Finding(sent, "a connection that was lost is still counted")
        outcome = "closed" if self._was_closed else "open"
        self.outcomes["logged in" if behind else outcome] += 1
