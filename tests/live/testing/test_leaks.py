"""What a broker leaves behind fails its close, with its name. Each kind of leak is planted."""

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest

from coterie.conversation.pipe import MemoryTransport
from coterie.testing import Broker, BrokerLeak
from coterie.testing.server_thread import ServerThread

# A plant returns what removes it again.
Plant = Callable[[Broker], Callable[[], object]]


def loop_of(kafka: Broker) -> asyncio.AbstractEventLoop:
    assert isinstance(kafka.thread, ServerThread)
    return kafka.thread.loop


def task(kafka: Broker) -> Callable[[], object]:
    async def planted() -> None:
        await asyncio.sleep(60)

    def begin() -> asyncio.Task[None]:
        return loop_of(kafka).create_task(planted(), name="planted task")

    left = kafka.thread.call(begin)
    return lambda: left


def listening_socket(kafka: Broker) -> Callable[[], object]:
    address = kafka.address._replace(port=0)
    listener = kafka.thread.run(kafka.thread.listen(asyncio.Protocol, address))
    return listener.close


def connected_socket(kafka: Broker) -> Callable[[], object]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    kafka.thread.call(lambda: loop_of(kafka).add_reader(ours, lambda: None))

    def remove() -> None:
        ours.close()
        theirs.close()

    return remove


def connection(kafka: Broker) -> Callable[[], object]:
    class Deaf(MemoryTransport):
        """A transport that never ends."""

        def write(self, data: bytes | bytearray | memoryview) -> None: ...
        def close(self) -> None: ...

    accepted = kafka.thread.call(lambda: kafka.server.accept(Deaf(("127.0.0.1", 0))))
    return lambda: accepted


def file(kafka: Broker) -> Callable[[], object]:
    return kafka.disk.create("memory/planted.txt").close


def thread(kafka: Broker) -> Callable[[], object]:
    ended = threading.Event()

    def steps() -> Iterator[None]:
        yield None
        ended.wait(60)

    workers = kafka.server.environment.workers("planted", 1)
    kafka.thread.call(lambda: workers.submit(steps(), lambda _: None))
    return ended.set


PLANTS: dict[Plant, str] = {
    task: r"the task <Task pending name='planted task'",
    listening_socket: r"a socket that listens on 127\.0\.0\.1:\d+",
    connected_socket: r"a socket of this machine, file \d+",
    connection: r"1 connection",
    file: r"the open file memory/planted\.txt",
    thread: r"the thread planted-of-broker-\d+",
}


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_leak_fails_the_close_with_its_name(plant: Plant) -> None:
    kafka = Broker().start()
    remove = plant(kafka)
    try:
        with pytest.raises(BrokerLeak, match=f"left after the broker was closed: {PLANTS[plant]}"):
            kafka.close()
    finally:
        remove()
    # It is closed all the same.
    kafka.close()


def test_leaks_are_named_together() -> None:
    kafka = Broker().start()
    removes = [file(kafka), task(kafka)]
    with pytest.raises(BrokerLeak, match=r"the task .*; the open file "):
        kafka.close()
    for remove in removes:
        remove()


def test_thread_of_another_library_is_no_leak() -> None:
    end = threading.Event()
    with Broker():
        other = threading.Thread(target=end.wait, name="Thread-1")
        other.start()
    end.set()
    other.join()


def test_connection_accepted_as_the_broker_is_broken_off_is_closed() -> None:
    """The loop accepts a socket in one turn and makes the connection in the next one."""
    with Broker() as kafka, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loop = loop_of(kafka)

        def connect_and_break_off() -> socket.socket:
            # The next turn has this callback, then the accept. The turn after it breaks off the
            # broker, then makes the connection.
            loop.call_soon(lambda: loop.call_soon(kafka.server.break_off))
            return socket.create_connection(kafka.address)

        with kafka.thread.call(connect_and_break_off) as client:
            client.settimeout(30)
            assert client.recv(1) == b""
        kafka.kill()
        gc.collect()
    assert [str(each.message) for each in warned if each.category is ResourceWarning] == []
