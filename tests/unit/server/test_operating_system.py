"""What the process asks of its operating system, and what it does where that has no answer."""

import asyncio
import os
import resource
import signal
import sys
import time
from asyncio import unix_events
from pathlib import Path
from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.server import operating_system
from coterie.server.allocator import keep_large_blocks
from coterie.server.file_handles import raise_limit
from coterie.server.network.connection import Connection
from coterie.server.network.routes import Overlay
from coterie.server.operating_system import (
    age_s,
    cpu_clock,
    on_signals,
    open_files,
    resident_bytes,
    run_on_fastest_loop,
)
from tests.unit.server.manual import Client, make_broker


async def _module_of_the_loop() -> str:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0]


def test_the_loop_is_that_of_uvloop_or_of_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_on_fastest_loop(_module_of_the_loop()) == "uvloop"
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_on_fastest_loop(_module_of_the_loop()) == "asyncio"


@pytest.mark.parametrize("has_handlers", [True, False])
def test_signals_call_a_function_on_the_loop(
    monkeypatch: pytest.MonkeyPatch, *, has_handlers: bool
) -> None:
    async def run() -> tuple[object, ...]:
        loop = asyncio.get_running_loop()
        got: asyncio.Future[tuple[object, ...]] = loop.create_future()

        def note(*arguments: object) -> None:
            assert asyncio.get_running_loop() is loop
            got.set_result(arguments)

        on_signals(["SIGOFNOSYSTEM", "SIGHUP"], note, "a", 1)
        os.kill(os.getpid(), signal.SIGHUP)
        return await got

    def refuse(*_: object) -> None:
        raise NotImplementedError

    if not has_handlers:
        monkeypatch.setattr(unix_events._UnixSelectorEventLoop, "add_signal_handler", refuse)
    before = signal.getsignal(signal.SIGHUP)
    try:
        assert asyncio.run(run()) == ("a", 1)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_age_of_the_process_is_the_time_since_the_command_where_it_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert age_s(time.monotonic()) > 0.05
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    assert 5 <= age_s(time.monotonic() - 5) < 6


def test_clock_of_a_thread_is_that_of_the_process_where_threads_have_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(time, "pthread_getcpuclockid", raising=False)
    assert cpu_clock(0) is time.process_time


def test_memory_and_files_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert 1 << 20 < (resident_bytes() or 0) <= 2 * peak_bytes
    before = open_files()
    assert before is not None
    with open(tmp_path / "a", "w"):
        assert open_files() == before + 1
    monkeypatch.setattr(operating_system, "_OPEN_FILES", (f"{tmp_path}/none", str(tmp_path)))
    assert open_files() == 1
    monkeypatch.setattr(operating_system, "_OPEN_FILES", (f"{tmp_path}/none",))
    assert open_files() is None


class TestLimitOfFiles:
    def test_where_the_system_has_none_it_is_that_of_windows(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "resource", None)
        assert raise_limit() == 8_192

    @pytest.mark.parametrize(("most", "limit"), [(10**9, 65_536), (10_240, 10_240), (300, 256)])
    def test_it_is_raised_as_far_as_the_system_allows(
        self, monkeypatch: pytest.MonkeyPatch, most: int, limit: int
    ) -> None:
        """macOS reports no limit and refuses what is above one."""

        def set_limit(_: int, both: tuple[int, int]) -> None:
            if both[0] > most:
                raise ValueError("current limit exceeds maximum limit")

        monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
        monkeypatch.setattr(resource, "setrlimit", set_limit)
        assert raise_limit() == limit


def test_an_allocator_without_the_setting_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str | None) -> object:
        raise TypeError(f"Windows has no {name}")

    monkeypatch.setattr("ctypes.CDLL", load)
    assert not keep_large_blocks()
    monkeypatch.setitem(sys.modules, "ctypes", None)
    assert not keep_large_blocks()


def test_a_read_may_be_a_buffer_as_with_python_3_11_on_windows() -> None:
    received: list[bytes] = []

    def handle(_broker: Any, request: SyncGroupRequest, _connection: Connection) -> None:
        received.extend(each.assignment for each in request.assignments)

    broker = make_broker()
    broker.use_routes(Overlay(broker.routes, {ApiKey.SYNC_GROUP: lambda _: handle}))
    client = Client(broker)
    assignments = [SyncGroupRequestAssignment(member_id="m", assignment=b"1")]
    request = SyncGroupRequest(
        group_id="g", generation_id=1, member_id="m", assignments=assignments
    )
    client.connection.data_received(bytearray(client.frame(request, 4)))
    assert [type(each) for each in received] == [bytes]
    assert received == [b"1"]
