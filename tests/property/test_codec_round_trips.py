"""Every version of every message encodes as the simple encoder does, and decodes to itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocol.frames import decode_response
from coterie.protocol.spliced import stepping_framer
from coterie.protocol.wire import Message
from coterie.server.network.sliced_response import run_now
from tests.codecs import slow
from tests.codecs.catalogue import MESSAGES, RESPONSES, pair_id, versions_of
from tests.codecs.instances import messages, project

_SETTINGS = settings(max_examples=10, deadline=None, derandomize=True)


@pytest.mark.parametrize("cls", MESSAGES, ids=pair_id)
def test_every_version_round_trips(cls: type[Message]) -> None:
    @_SETTINGS
    @given(messages(cls))
    def check(full: Message) -> None:
        for version in versions_of(cls):
            message = project(full, version)
            data = full.encode(version) if version == cls.versions.last else message.encode(version)
            assert data == slow.encode(message, version), f"v{version}"
            assert cls.decode(data, version) == message, f"v{version}"

    check()


@pytest.mark.parametrize("cls", [cls for cls in MESSAGES if cls.flexible is not None], ids=pair_id)
def test_unknown_tags_are_skipped_in_every_structure(cls: type[Message]) -> None:
    @_SETTINGS
    @given(messages(cls))
    def check(full: Message) -> None:
        assert cls.flexible is not None
        for version in range(max(cls.flexible, cls.versions.first), cls.versions.last + 1):
            message = project(full, version)
            data = slow.encode(message, version, unknown_tags=True)
            assert cls.decode(data, version) == message, f"v{version}"

    check()


@pytest.mark.parametrize("cls", RESPONSES, ids=pair_id)
def test_a_framed_response_has_length_header_and_body(cls: type[Message]) -> None:
    @_SETTINGS
    @given(messages(cls), st.integers(-(2**31), 2**31 - 1))
    def check(full: Message, correlation_id: int) -> None:
        for version in versions_of(cls):
            message = project(full, version)
            frame = cls.framer(version)(message, correlation_id)
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            assert frame.endswith(message.encode(version))
            assert decode_response(cls, frame[4:], version) == (correlation_id, message)

    check()


@pytest.mark.parametrize(
    "cls", [cls for cls in MESSAGES if cls.__name__.endswith("Request")], ids=pair_id
)
def test_request_that_is_decoded_in_steps_is_the_same(
    cls: type[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    if cls.is_native:
        pytest.skip("the compiled form decodes in native code, at once")
    # So that small messages have several steps.
    monkeypatch.setattr("coterie.protocol.compile_decode._ELEMENTS_A_STEP", 1)
    monkeypatch.setattr(cls, "functions_", dict(cls.functions_))

    @_SETTINGS
    @given(messages(cls))
    def check(full: Message) -> None:
        for version in versions_of(cls):
            message = project(full, version)
            data = message.encode(version)
            steps = cls.decoder_in_steps(version)(b"before" + data, 6, 6 + len(data))
            assert run_now(steps) == message, f"v{version}"

    check()


@pytest.mark.parametrize("cls", RESPONSES, ids=pair_id)
def test_frame_that_is_encoded_in_steps_is_the_same(
    cls: type[Message], monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that small messages have several steps.
    monkeypatch.setattr("coterie.protocol.compile_encode._PIECES_TOGETHER", 1)
    monkeypatch.setattr("coterie.protocol.compile_encode._PIECES_WITH_RECORDS", 0)
    monkeypatch.setattr("coterie.protocol.spliced._COPIED_BYTES", 50)
    monkeypatch.setattr(cls, "functions_", {})

    @_SETTINGS
    @given(messages(cls), st.integers(-(2**31), 2**31 - 1))
    def check(full: Message, correlation_id: int) -> None:
        for version in versions_of(cls):
            message = project(full, version)
            steps = stepping_framer(cls, version)(message, correlation_id)
            assert run_now(steps) == cls.framer(version)(message, correlation_id), f"v{version}"

    check()
