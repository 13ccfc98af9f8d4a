"""The environment of a process: ids, waiting, and work that would hold the event loop."""

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from coterie.server.clock import system_clock
from coterie.server.environment import Environment
from coterie.testing import Broker
from tests.unit.server.manual import ManualEnvironment, RecordingLog
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.virtual import VirtualEnvironment, complete


def in_process(use: Callable[[Environment], Awaitable[None]]) -> None:
    """Use the environment of this process on a loop."""

    async def go() -> None:
        environment = Environment.of_process(RecordingLog().as_logger())
        try:
            await use(environment)
        finally:
            environment.stop()

    asyncio.run(go())


class TestIds:
    def environment(self, seed: int) -> Environment:
        return VirtualEnvironment(ManualLoop(), seed)

    def test_ids_are_random_uuids_of_version_4(self) -> None:
        environment = self.environment(1)
        text = environment.new_uuid_text()
        assert UUID(text).version == 4
        assert str(UUID(text)) == text
        assert UUID(bytes=environment.new_topic_id()).version == 4
        assert len(environment.new_file_id()) == 8
        assert len(environment.new_base64_id()) == 22

    def test_text_of_a_topic_id_never_begins_with_a_dash(self) -> None:
        environment = self.environment(2)
        assert not any(environment.new_base64_id().startswith("-") for _ in range(500))

    def test_ids_belong_to_a_seed(self) -> None:
        ids = [
            [environment.new_uuid_text(), environment.new_topic_id(), environment.new_file_id()]
            for environment in map(self.environment, (3, 3, 4))
        ]
        assert ids[0] == ids[1]
        assert not set(map(str, ids[0])) & set(map(str, ids[2]))

    def test_random_bytes_of_a_process_differ(self) -> None:
        async def use(environment: Environment) -> None:
            random.seed(1)
            first = environment.new_uuid_text()
            random.seed(1)
            assert environment.new_uuid_text() != first

        in_process(use)


class TestWaiting:
    def test_sleep_takes_the_time_of_the_loop(self) -> None:
        loop = ManualLoop()
        before_ms = loop.clock()
        complete(loop, ManualEnvironment(loop).sleep(3_600))
        assert loop.clock() - before_ms == 3_600_000

    def test_cancelled_sleep_leaves_no_timer(self) -> None:
        async def use(environment: Environment) -> None:
            sleeping = asyncio.ensure_future(environment.sleep(3_600))
            await environment.next_turn()
            sleeping.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeping

        in_process(use)

    def test_clock_starts_at_the_wall_clock_and_does_not_go_back(self) -> None:
        now_ms = system_clock()
        seen = [now_ms() for _ in range(100)]
        assert seen == sorted(seen)
        # A time of this century.
        assert 1_700_000_000_000 < seen[0] < 4_000_000_000_000


class TestWallClock:
    def test_clock_of_the_machine_may_jump_and_that_of_sessions_does_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hour_ms, real_ns = 3_600_000, time.time_ns

        async def use(environment: Environment) -> None:
            before_ms = environment.now_ms()
            assert abs(environment.wall_ms() - before_ms) < 60_000
            monkeypatch.setattr(time, "time_ns", lambda: real_ns() + hour_ms * 1_000_000)
            assert abs(environment.wall_ms() - before_ms - hour_ms) < 60_000
            assert abs(environment.now_ms() - before_ms) < 60_000

        in_process(use)

    def test_clock_of_a_broker_of_a_test_goes_forward_with_it(self) -> None:
        with Broker() as kafka:
            environment = kafka.server.environment
            before_ms = environment.wall_ms()
            kafka.advance(3_600)
            assert abs(environment.wall_ms() - before_ms - 3_600_000) < 60_000


class TestRunBlocking:
    def test_function_runs_in_a_thread_that_ends_with_the_environment(self) -> None:
        before = set(threading.enumerate())

        async def use(environment: Environment) -> None:
            name = await environment.run_blocking(lambda: threading.current_thread().name)
            assert name == "coterie-blocking"

        in_process(use)
        assert set(threading.enumerate()) <= before

    def test_exception_is_raised_where_the_result_is_awaited(self) -> None:
        async def use(environment: Environment) -> None:
            with pytest.raises(ZeroDivisionError):
                await environment.run_blocking(lambda: 1 // 0)
            assert await environment.run_blocking(lambda: 1) == 1

        in_process(use)

    def test_result_that_nobody_awaits_any_more_is_dropped(self) -> None:
        async def use(environment: Environment) -> None:
            go_on = threading.Event()
            waiting = asyncio.ensure_future(environment.run_blocking(go_on.wait))
            await environment.next_turn()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            go_on.set()
            assert await environment.run_blocking(lambda: "next") == "next"

        in_process(use)

    def test_environment_of_a_loop_that_a_test_turns_needs_no_thread(self) -> None:
        before = set(threading.enumerate())
        loop = ManualLoop()
        environment = VirtualEnvironment(loop, 1)
        assert complete(loop, environment.run_blocking(lambda: 7)) == 7
        environment.stop()
        assert set(threading.enumerate()) <= before
