"""Compare what a broker answers with what Kafka answered to the same requests.

    python -m tests.compared.answers 127.0.0.1:19092 --release 4.3.1 [--rewrite]

sends the conversations of `tests/golden/answers` to a running Kafka and prints what differs from
the files, or writes its answers into them. Use a fresh Kafka of that release with node id 1 and
`auto.create.topics.enable=false`. `tests/unit/server/test_answers_of_kafka.py` sends them to ours.
"""

import argparse
import re
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from coterie.address import Address
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.structures import Tree, build_structure, tree_of, tree_text
from coterie.conversation.syntax import parse_request_line
from coterie.protocol.wire import ZERO_UUID
from tests.unit.server.manual import Client
from tests.unit.server.running import SocketClient

PATHS = sorted((Path(__file__).parents[1] / "golden" / "answers").glob("*/*.txt"))
# Kafka may answer before it knows of the last change.
_TRIES = 20
_PAUSE_S = 0.1

# Ids, and times close to now, differ in each run.
_ID = re.compile(
    r"(?<=topic_id: )[\w-]{22}|(?<=within )\[-?\d+, \d+\]|(?<=port: )\d+"
    r"|(?<= port=)\d+|(?<=cluster_id=)[\w-]{22}|(?<=cluster id ')[\w-]{22}"
)
_TIME = re.compile(r"\b\d{13}\b")
_NEAR_MS = 24 * 3600 * 1000
# Lists that have no order.
UNORDERED = (
    "config_resources", "configs", "entity", "entries",
    "resources", "responses", "results", "topics",
)  # fmt: skip

_REQUEST = "c1> "


def exchanges(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Return where the answers of a conversation are, with the requests and the answers."""
    for at, line in enumerate(lines):
        if line.startswith(_REQUEST):
            yield at + 1, line, lines[at + 1]


class Conversation:
    """One client's requests, as lines."""

    def __init__(
        self,
        client: Client | SocketClient,
        names: LearntNames | None = None,
        unordered: tuple[str, ...] = UNORDERED,
    ) -> None:
        """Begin without a request.

        Args:
            client: the client.
            names: what is known already of the broker's ids; None for nothing.
            unordered: the lists that have no order.
        """
        self._client = client
        self._unordered = unordered
        # No name of a conversation has this prefix.
        self._names = LearntNames("\0") if names is None else names

    def answer(self, request: str) -> str:
        """Send the request of a line; return the line of its answer."""
        line = parse_request_line(request)
        assert line is not None, request
        try:
            response: Any = self._client.call(build_structure(line, self._names), line.version)
        except EOFError:
            return f"{line.client}< closed"
        for topic in getattr(response, "topics", ()):
            if getattr(topic, "topic_id", ZERO_UUID) != ZERO_UUID and getattr(topic, "name", None):
                self._names.topic_ids[topic.name] = topic.topic_id
        tree = tree_of(response, line.version, self._names)
        _sort(tree, self._unordered)
        text = " ".join(f"{name}={tree_text(value)}" for name, value in tree.items())
        return f"{line.client}< {_TIME.sub(_constant, _ID.sub('*', text))}"


def _constant(match: re.Match[str]) -> str:
    """Return a time, or `*` if it is close to now."""
    return "*" if abs(int(match[0]) - time.time() * 1000) < _NEAR_MS else match[0]


def _sort(tree: Tree, unordered: tuple[str, ...]) -> None:
    """Give each list without an order one."""
    for name, value in tree.items():
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, dict):
                _sort(element, unordered)
        if name in unordered and isinstance(value, list):
            value.sort(key=tree_text)


def _answer_of_kafka(conversation: Conversation, request: str, expected: str) -> str:
    for _ in range(_TRIES):
        found = conversation.answer(request)
        if found == expected:
            break
        time.sleep(_PAUSE_S)
    return found


def main() -> None:
    """Send the conversations to a Kafka."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address", type=Address.parse)
    parser.add_argument("--release", default="4.3.1")
    parser.add_argument("--rewrite", action="store_true")
    options, differences = parser.parse_args(), 0
    for path in (each for each in PATHS if each.parent.name == options.release):
        lines = path.read_text().splitlines()
        with SocketClient(socket.create_connection(options.address, timeout=20)) as client:
            conversation = Conversation(client)
            for at, request, expected in exchanges(lines):
                found = _answer_of_kafka(conversation, request, expected)
                if found != expected:
                    differences += 1
                    print(f"{path.name}: {request}\n    file  {expected}\n    Kafka {found}")
                lines[at] = found
        if options.rewrite:
            path.write_text("".join(f"{line}\n" for line in lines))
    print(f"{differences} answers differ")
    sys.exit(1 if differences and not options.rewrite else 0)


if __name__ == "__main__":
    main()
