"""The load generator and its driver: their counts, their order, and the addresses they refuse.

Counts are compared with those of servers that count as well. No test here depends on speed.
"""

import asyncio
import json
import os
import struct
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import cast

import pytest
import uvloop

from benchmarks import stable_members
from benchmarks.address import Address, NotLoopback
from benchmarks.assembly import Assembly
from benchmarks.brokers import floor
from benchmarks.measures import CPU_US, Outcome
from benchmarks.member import Member
from benchmarks.processes import Usage, cpu_s, listening_pid, rss_mib
from benchmarks.report import ratio
from benchmarks.requests import Refused, Requests
from benchmarks.rounds import Plan, Results, steps
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.heartbeat import bare_ring
from benchmarks.session import Job
from benchmarks.steady import Shape, Steady, load
from coterie.processes import Child, free_port
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from coterie.protocol.messages.leave_group import LeaveGroupResponse
from coterie.protocol.messages.sync_group import SyncGroupResponse
from tests.unit.test_benchmark_requests import decoded

ROOT = Path(__file__).parent.parent.parent
# 192.0.2.0/24 is reserved for documentation, so no host has this address.
ELSEWHERE = "192.0.2.1"


@pytest.mark.parametrize("shape", [Shape(3, 1), Shape(2, 32)], ids=["closed", "pipelined"])
def test_counts_agree_with_the_floor(shape: Shape, tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.floor", str(port)]
    server = Child("The floor", command, tmp_path / "output", directory=ROOT)
    try:
        server.wait_for_port(("127.0.0.1", port))
        pid = server.process.pid
        assert listening_pid(port) == pid
        job = Job("heartbeat", "closed", "127.0.0.1", port, pid, 1.0, 0.05, bare=True)
        steady = uvloop.run(load(job, shape, bare_ring))
    finally:
        server.end()
    answered = int(server.last_lines())
    # Every connection sends one request before the load, to learn the expected response.
    assert answered == steady.answered_in_all + shape.connections
    assert steady.sent_in_all == steady.answered_in_all
    assert 0 < len(steady.latencies_s) < steady.answered_in_all
    assert min(steady.latencies_s) > 0
    assert not steady.errors
    assert steady.usage.server_cpu_s is not None
    assert 0 < steady.usage.server_cpu_s < 2 * steady.usage.seconds


class ErringServer(asyncio.Protocol):
    """Answers every fourth heartbeat with an error, in pieces of five bytes."""

    received = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.partial = b""

    def data_received(self, data: bytes) -> None:
        data = self.partial + data
        answer = HeartbeatResponse.framer(4)
        out = b""
        while len(data) >= 4 and len(data) >= 4 + int.from_bytes(data[:4], "big"):
            end = 4 + int.from_bytes(data[:4], "big")
            ErringServer.received += 1
            code = ErrorCode.REBALANCE_IN_PROGRESS if self.received % 4 == 0 else ErrorCode.NONE
            (correlation_id,) = struct.unpack_from(">i", data, 8)
            out += answer(HeartbeatResponse(error_code=code), correlation_id)
            data = data[end:]
        self.partial = data
        for start in range(0, len(out), 5):
            self.transport.write(out[start : start + 5])


def test_errors_are_counted() -> None:
    async def run() -> tuple[Counter[str], int]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(ErringServer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        job = Job("heartbeat", "closed", "127.0.0.1", port, None, 0.1, 0.0, bare=True)
        steady = await load(job, Shape(1, 8), bare_ring)
        server.close()
        return steady.errors, steady.answered_in_all

    errors, answered = asyncio.run(run())
    assert ErringServer.received == answered + 1
    assert errors == {"REBALANCE_IN_PROGRESS": ErringServer.received // 4}


def test_too_many_errors_give_no_figures() -> None:
    usage = Usage(1.0, 0.5, 0.5, 0.0)
    job = Job("heartbeat", "closed", "127.0.0.1", 1)
    few = Steady(usage, [0.001] * 300, Counter(UNKNOWN_MEMBER_ID=3), 300, 300)
    assert stable_members.outcome_of(job, few, {}).errors == {"UNKNOWN_MEMBER_ID": 3}
    many = Steady(usage, [0.001] * 300, Counter(UNKNOWN_MEMBER_ID=4), 300, 300)
    with pytest.raises(ConnectionError, match="4 of 300 responses were errors: UNKNOWN_MEMBER_ID"):
        stable_members.outcome_of(job, many, {})


class Wire:
    """A transport that records the requests of a member."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(data)

    def key(self) -> int:
        """Remove the last request and return its API key."""
        return int(struct.unpack_from(">h", self.sent.pop(), 4)[0])


def join_answer(code: int, generation: int, member_id: str, member_ids: list[str]) -> bytes:
    leader = member_ids[0] if member_ids else "another member"
    members = [JoinGroupResponseMember(member_id=m, metadata=b"") for m in member_ids]
    return JoinGroupResponse.framer(9)(
        JoinGroupResponse(
            error_code=code,
            generation_id=generation,
            protocol_type="consumer",
            protocol_name="range",
            leader=leader,
            member_id=member_id,
            members=members,
        ),
        0,
    )


def sync_answer(code: int) -> bytes:
    return SyncGroupResponse.framer(5)(SyncGroupResponse(error_code=code, assignment=b""), 0)


def heartbeat_answer(code: int) -> bytes:
    return HeartbeatResponse.framer(4)(HeartbeatResponse(error_code=code), 0)


def two_members() -> tuple[Assembly, list[Member], list[Wire]]:
    requests = Requests(dict.fromkeys(ApiKey, (0, 99)))
    assembly = Assembly(requests, "g")
    members, wires = [Member(requests, assembly) for _ in range(2)], [Wire(), Wire()]
    for member, wire in zip(members, wires, strict=True):
        member.connection_made(wire)  # type: ignore[arg-type]
    assembly.members = list(members)
    return assembly, members, wires


def test_a_group_is_complete_when_all_members_synced_in_one_generation() -> None:
    async def run() -> None:
        assembly, (a, b), (to_a, to_b) = two_members()
        gathered = asyncio.ensure_future(assembly.gather())
        await asyncio.sleep(0)
        assert (to_a.key(), to_b.key()) == (ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP)
        a.data_received(join_answer(ErrorCode.MEMBER_ID_REQUIRED, -1, "a", []))
        assert to_a.sent == []  # it waits until the other one has its id
        b.data_received(join_answer(ErrorCode.MEMBER_ID_REQUIRED, -1, "b", []))
        assert (to_a.key(), to_b.key()) == (ApiKey.JOIN_GROUP, ApiKey.JOIN_GROUP)

        # The broker completes a generation of one member, which does not end the phase.
        a.data_received(join_answer(0, 1, "a", ["a"]))
        assert to_a.key() == ApiKey.SYNC_GROUP
        a.data_received(sync_answer(0))
        await asyncio.sleep(0.05)
        assert to_a.key() == ApiKey.HEARTBEAT
        a.data_received(heartbeat_answer(ErrorCode.REBALANCE_IN_PROGRESS))
        assert to_a.key() == ApiKey.JOIN_GROUP

        b.data_received(join_answer(0, 2, "b", []))
        answer = join_answer(0, 2, "a", ["a", "b"])
        a.data_received(answer[:7])
        a.data_received(answer[7:])
        sync = decoded(to_a.sent.pop(), ApiKey.SYNC_GROUP)
        assert [each.member_id for each in sync.assignments] == ["a", "b"]
        b.data_received(sync_answer(0))
        await asyncio.sleep(0)
        assert not gathered.done()
        a.data_received(sync_answer(0))
        await gathered
        assert assembly.generation == 2

    asyncio.run(run())


def test_a_member_that_leaves_makes_the_others_rejoin() -> None:
    async def run() -> None:
        assembly, (a, b), (to_a, to_b) = two_members()
        for member, name in ((a, "a"), (b, "b")):
            member.group, member.member_id, member.generation = "g", name, 3
        dismissed = asyncio.ensure_future(assembly.dismiss(b))
        await asyncio.sleep(0)
        assert (to_b.key(), to_a.sent) == (ApiKey.LEAVE_GROUP, [])
        b.data_received(LeaveGroupResponse.framer(5)(LeaveGroupResponse(error_code=0), 0))
        assert to_a.key() == ApiKey.HEARTBEAT
        a.data_received(heartbeat_answer(ErrorCode.UNKNOWN_MEMBER_ID))
        with pytest.raises(Refused, match="Heartbeat was answered UNKNOWN_MEMBER_ID"):
            await dismissed

    asyncio.run(run())


def test_a_response_that_cannot_be_decoded_ends_the_phase() -> None:
    async def run() -> None:
        assembly, (a, _), _ = two_members()
        gathered = asyncio.ensure_future(assembly.gather())
        await asyncio.sleep(0)
        a.data_received(struct.pack(">ii", 4, 0))
        with pytest.raises(ConnectionError, match="a response cannot be decoded"):
            await gathered

    asyncio.run(run())


def test_addresses_must_be_loopback() -> None:
    assert Address.parse("127.0.0.1:9092:17") == Address("127.0.0.1", 9092, 17)
    assert Address.parse("[::1]:9092") == Address("::1", 9092)
    for text in ("127.0.0.1", "127.0.0.1:x", "127.0.0.1:0", ":9092", "127.0.0.1:1:2:3"):
        with pytest.raises(ValueError, match="is not"):
            Address.parse(text)
    with pytest.raises(NotLoopback, match="loopback addresses only"):
        Address.parse(f"{ELSEWHERE}:9092")


def test_the_generator_refuses_addresses_outside_this_machine() -> None:
    for scenario in SCENARIOS.values():
        if scenario.run is None:
            continue
        job = Job(scenario.key, scenario.rows[0].key, ELSEWHERE, 9092, bare=scenario.floor)
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.generator"],
            cwd=ROOT,
            input=json.dumps(job.as_dict()),
            capture_output=True,
            text=True,
            check=True,
            timeout=110,
        )
        assert "loopback addresses only" in json.loads(done.stdout)["not_available"]


def test_the_driver_refuses_addresses_outside_this_machine() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--peer", f"x={ELSEWHERE}:9092"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 2
    assert "loopback addresses only" in " ".join(done.stderr.replace("│", "").split())


@pytest.mark.slow
def test_a_quick_run_of_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    chosen = ["--quick", "--scenario", "heartbeat", "--without", "coterie", "--without", "mock"]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *chosen, "--rounds", "2", "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    assert "closed loop, 32 connections" in done.stdout
    figures = json.loads(file.read_text())
    assert set(figures["scenarios"]) == {"heartbeat/closed", "heartbeat/pipelined"}
    rounds = figures["scenarios"]["heartbeat/closed"]["floor"]["rounds"]
    assert [outcome["errors"] for outcome in rounds] == [{}, {}]
    assert all(outcome["numbers"]["requests_per_s"] > 0 for outcome in rounds)


def test_rounds_alternate_and_the_floor_skips_scenarios_with_groups() -> None:
    one, two = floor(), floor()
    one.name, two.name = "one", "two"
    two.bare = False
    heartbeat, churn = SCENARIOS["heartbeat"], SCENARIOS["churn"]
    todo = steps([(heartbeat, heartbeat.rows[0]), (churn, churn.rows[0])], [one, two], Plan(2))
    assert [(step.scenario.key, step.broker.name, step.round_number) for step in todo] == [
        ("heartbeat", "one", 1),
        ("heartbeat", "two", 1),
        ("heartbeat", "one", 2),
        ("heartbeat", "two", 2),
        ("churn", "two", 1),
        ("churn", "two", 2),
    ]


def test_ratios_compare_round_by_round() -> None:
    def results(*values: float) -> Results:
        return Results([Outcome({CPU_US.key: value}) for value in values])

    table = {"ours": results(1.0, 2.0, 4.0), "theirs": results(3.0, 4.0, 8.0), "none": Results()}
    assert ratio(table, "theirs", "ours", CPU_US) == 2.0
    assert ratio(table, "none", "ours", CPU_US) is None
    assert ratio(table, "ours", "ours", CPU_US) is None


def test_cpu_time_and_memory_are_read_from_the_system() -> None:
    before, began = cpu_s(os.getpid()), time.process_time()
    while time.process_time() < began + 0.05:
        pass
    after = cpu_s(os.getpid())
    assert before is not None
    assert after is not None
    assert 0.04 < after - before < 0.5
    assert (rss_mib(os.getpid()) or 0) > 5
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert cpu_s(ended.pid) is None
    assert rss_mib(ended.pid) is None
