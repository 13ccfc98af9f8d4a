"""Compare the records that a Kafka writes in the transcripts with those that the transcripts show.

    python -m tests.compared.consumer_groups.transcripts HOST:PORT

Times are left out, and so is the order of records of one kind that follow each other. What `given`
writes is not shown by transcripts, so it may come before. One difference is known: a LeaveGroup of
several members removes them in the order of a hash set of Kafka, here in that of the request
(`consumer_groups/members_removed_together`).
"""

import argparse
import asyncio
import re
import sys
import time
from itertools import groupby
from pathlib import Path

from coterie.address import Address
from coterie.conformance.checks.registry import is_for_clients
from coterie.conformance.core_lines import record_text
from coterie.conformance.over_tcp.connection import RefusedError
from coterie.conformance.over_tcp.driver import TcpDriver
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.transcript import Transcript, all_paths, read
from coterie.conversation.learnt_names import LearntNames
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from coterie.protocol.record_batch import read_header
from coterie.protocol.record_batch_layout import CONTROL
from coterie.protocol.records import decode_records
from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.compared.transactions.plain_values import batches

_AREAS = ("consumer_groups", "share_groups", "streams_groups")
_PARTITIONS = 50
_LIMIT_BYTES = 1 << 24
_AT_ONCE = 8
# Kafka answers a little before its reader sees the record.
_DURABLE_S = 0.2
_SHOWN = "log+ "
_TIME = re.compile(r" at [-\d:.]+$")


async def stored(target: Target, group_id: str, names: LearntNames) -> list[str]:
    """Return the records of a group as transcripts show them."""
    offset, lines = 0, []
    while True:
        asked = FetchRequestPartition(
            partition=partition_for(group_id, _PARTITIONS),
            fetch_offset=offset,
            partition_max_bytes=_LIMIT_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_LIMIT_BYTES,
            topics=[FetchRequestTopic(topic=OFFSETS_TOPIC, partitions=[asked])],
        )
        answer = (await target.call(request, FetchResponse, 11)).responses[0].partitions[0]
        assert not answer.error_code, answer
        for batch in batches(answer.records or b""):
            header = read_header(batch, 0)
            offset = header.base_offset + header.last_offset_delta + 1
            if header.attributes & CONTROL:
                continue
            for record in decode_records(batch, header, 0):
                assert record.key is not None, record
                line = record_text(record.key, record.value, 0, names)
                if f" {group_id} " in line:
                    lines.append(named(line, names))
        if offset >= answer.high_watermark:
            return lines


def named(line: str, names: LearntNames) -> str:
    """Return a line with the names of the transcript, without a time."""
    for member_id in names.member_ids:
        line = line.replace(member_id, names.member_text(member_id))
    return _TIME.sub("", names.message_text(line))


def shown(transcript: Transcript) -> dict[str, list[str]]:
    """Return the records that a transcript shows, by group."""
    groups: dict[str, list[str]] = {}
    for block in transcript.blocks:
        for line in block.expected:
            if line.startswith(_SHOWN):
                text = _TIME.sub("", line.removeprefix(_SHOWN))
                groups.setdefault(text.split()[1], []).append(text)
    return groups


def _kind(line: str) -> str:
    words = line.split()
    return f"{words[0]} {words[-1] == 'tombstone'} {' epoch' in line}"


def sorted_runs(lines: list[str]) -> list[str]:
    """Return records, those of one kind that follow each other in alphabetic order.

    A topic that was deleted since has another name in the log that is read at the end.
    """
    plain = [line.replace("deleted-", "") for line in lines]
    return [line for _, run in groupby(plain, _kind) for line in sorted(run)]


async def compare(target: Target, path: Path, prefix: str) -> bool | None:
    """Run a transcript; return whether its records are those of the broker, None if it deviates."""
    transcript, names = read(path), LearntNames(prefix)
    driver = TcpDriver(target, names)
    try:
        found = await driver.run(transcript)
    except RefusedError as refusal:
        print(f"{path.stem}: {refusal}")
        return None
    finally:
        driver.close()
    if found:
        print(f"{path.stem}: answers differ")
        return None
    await asyncio.sleep(_DURABLE_S)
    is_equal = True
    for group, lines in shown(transcript).items():
        ours = sorted_runs(lines)
        kafkas = sorted_runs(await stored(target, names.group(group), names))
        if ours != kafkas[len(kafkas) - len(ours) :]:
            is_equal = False
            print(f"{path.stem} {group}")
            print("".join(f"    ours   {line}\n" for line in ours if line not in kafkas), end="")
            print("".join(f"    Kafka  {line}\n" for line in kafkas if line not in ours), end="")
    return is_equal


async def run(address: Address) -> int:
    """Compare all transcripts that a client can run; return how many differ."""
    target = Target(address)
    await target.open()
    await target.wait_for_coordinator("compared-probe")
    prefix = f"compared-{time.time_ns() // 1_000_000 % 100_000_000:x}-"
    paths = [path for path in all_paths() if path.parent.name in _AREAS]
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int, path: Path) -> bool | None:
        async with slots:
            return await compare(target, path, f"{prefix}{number}-")

    outcomes = await asyncio.gather(
        *(one(number, path) for number, path in enumerate(paths) if is_for_clients(read(path)))
    )
    await target.close()
    equal, differing = outcomes.count(True), outcomes.count(False)
    print(f"{equal} transcripts have Kafka's records, {differing} have others")
    return differing


def main() -> int:
    """Compare; the exit code is 1 if records differ."""
    parser = argparse.ArgumentParser(prog="python -m tests.compared.consumer_groups.transcripts")
    parser.add_argument("kafka", type=Address.parse)
    return 1 if asyncio.run(run(parser.parse_args().kafka)) else 0


if __name__ == "__main__":
    sys.exit(main())
