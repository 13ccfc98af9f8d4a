"""Compare conversations about transactions with the Kafka that the first argument names."""

import argparse
import random
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.address import Address
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.update_features import (
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
)
from tests.compared.transactions.conversation import Conversation
from tests.compared.transactions.data_steps import ListOffsets
from tests.compared.transactions.parts import Part, Timeout, WaitingFetch
from tests.compared.transactions.plain_values import plain
from tests.compared.transactions.side import CONNECTIONS, Side, connected
from tests.compared.transactions.step import Step
from tests.compared.transactions.stored import stored
from tests.unit.server.running import RunningBroker

LEVELS = (2, 1, 0)
_FEATURE = "transaction.version"
_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "50",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
_SHOWN = 3
_MARKER_TIME = re.compile(r"log_append_time_ms: Kafka \d{13}, Coterie 'now'")


class Answer(NamedTuple):
    """What a broker has answered to one request."""

    request: str
    value: Any


def answers(side: Side, part: Part, connection: int) -> Iterator[Answer]:
    """Do a part of a conversation with one broker."""
    if isinstance(part, Timeout):
        for step in part.before:
            yield _answer(side, step, connection)
        side.wait_for_abort(part.transactional_id)
        for step in part.after:
            yield _answer(side, step, connection)
    elif isinstance(part, WaitingFetch):
        yield from _while_waiting(side, part, connection)
    else:
        yield _answer(side, part, connection)


def _answer(side: Side, step: Step, connection: int) -> Answer:
    request = step.request(side)
    answer = side.call(request, step.version, connection)
    step.learn(side, answer)
    if step.ends:
        side.settle(step.ends)
    value = "closed" if answer is None else plain(answer, side)
    return Answer(_text(step), value)


def _while_waiting(side: Side, part: WaitingFetch, connection: int) -> Iterator[Answer]:
    fetch = part.fetch
    listed = side.call(ListOffsets(2, fetch.partitions, -1, 1).request(side), 2)
    offset = listed.topics[0].partitions[0].offset
    request = fetch.request(side)
    request.topics[0].partitions[0].fetch_offset = offset
    side.send(request, fetch.version, connection)
    time.sleep(0.02)
    yield _answer(side, part.meanwhile, (connection + 1) % CONNECTIONS)
    answer = side.receive(request, fetch.version, connection)
    yield Answer(_text(fetch), plain(answer, side))


def _text(step: Step) -> str:
    return repr(step).replace("tests.compared.transactions.", "")


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Return the places where two plain values differ."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from differences(left, right, f"{path}[{number}]")
    elif one != other:
        yield f"{path}: Kafka {one!r}, Coterie {other!r}"


def is_known(text: str) -> bool:
    """Return whether a difference is one of those that docs/spec describes.

    The append time of a retry is that of a later marker [data-plane/duplicate-batch].
    """
    return bool(_MARKER_TIME.search(text))


def compare(conversation: Conversation, sides: list[Side], *, verbose: bool) -> tuple[int, int]:
    """Have one conversation with both brokers; return the numbers of requests and differences."""
    for side in sides:
        side.producer_names.clear()
        conversation.prepare(side)
    requests = found = 0
    history = []
    for number, part in enumerate(conversation.steps()):
        both = [list(answers(side, part, number % CONNECTIONS)) for side in sides]
        for kafka, ours in zip(*both, strict=True):
            requests += 1
            history.append(f"{number} {kafka.request}\n        {kafka.value}")
            different = [
                each for each in differences(kafka.value, ours.value) if not is_known(each)
            ]
            if different:
                found += 1
                if found <= _SHOWN:
                    if verbose:
                        print("\n".join(history[-60:-1]))
                    print(f"{conversation.name} {number} {kafka.request}")
                    print("".join(f"    {line}\n" for line in different[:6]), end="", flush=True)
    both_stored = [list(stored(side, conversation)) for side in sides]
    for (name, kafka), (_, ours) in zip(*both_stored, strict=True):
        different = list(differences(kafka, ours))
        found += bool(different)
        if different and found <= _SHOWN:
            print(f"{conversation.name} {name}")
            print("".join(f"    {line}\n" for line in different[:6]), end="", flush=True)
    return requests, found


def set_level(side: Side, level: int) -> None:
    """Set the level of `transaction.version`, and wait until it is announced."""
    for kind in (UPGRADE, UNSAFE_DOWNGRADE):
        feature = UpdateFeaturesRequestFeature(
            feature=_FEATURE, max_version_level=level, upgrade_type=kind
        )
        answer = side.call(UpdateFeaturesRequest(feature_updates=[feature]), 1)
        if not answer.error_code:
            break
    assert not answer.error_code, answer
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    while True:
        finalized = side.call(request, 4).finalized_features
        levels = [each.max_version_level for each in finalized if each.name == _FEATURE]
        if levels == ([level] if level else []):
            return
        time.sleep(0.05)


def main() -> int:
    """Compare; the exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.compared.transactions")
    parser.add_argument("kafka", type=Address.parse)
    parser.add_argument("--seed", type=int, default=1, help="of the first conversation")
    parser.add_argument("--conversations", type=int, default=10, help="of each level")
    parser.add_argument("--steps", type=int, default=150, help="of each conversation")
    parser.add_argument("--level", type=int, choices=LEVELS, help="only this transaction.version")
    parser.add_argument(
        "--worn", type=int, default=1, help="conversations of each level in which epochs run out"
    )
    parser.add_argument("--verbose", action="store_true", help="print what was said before")
    options = parser.parse_args()
    run = f"{time.time_ns() // 1_000_000 % 100_000_000:x}"
    requests = found = 0
    with RunningBroker(_SETTINGS) as broker, connected(options.kafka, broker.address) as sides:
        for level in LEVELS if options.level is None else (options.level,):
            for side in sides:
                set_level(side, level)
            for number in range(options.conversations):
                seed = options.seed + number
                chance = random.Random(f"{level} {seed}")
                conversation = Conversation(
                    f"{run}-{level}-{seed}", level, chance, options.steps, number < options.worn
                )
                asked, different = compare(conversation, sides, verbose=options.verbose)
                requests, found = requests + asked, found + different
        for side in sides:
            set_level(side, max(LEVELS))
    print(f"{requests} requests, {found} answers differ")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
