"""Compare what a broker answers with what Kafka 4.3.1 answered to the same requests.

    python -m tests.compared.answers 127.0.0.1:19092 [--rewrite]

sends the conversations of `tests/golden/answers` to a running Kafka and prints what differs from
the files, or writes its answers into them. Use a fresh Kafka 4.3.1 with node id 1, and with
`auto.create.topics.enable=false`. `tests/unit/server/test_answers_of_kafka.py` sends them to ours.
"""

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
from tests.unit.server.manual import Client
from tests.unit.server.running import SocketClient

PATHS = sorted((Path(__file__).parents[1] / "golden" / "answers").glob("*.txt"))
# Kafka may answer before it knows of the last change.
_TRIES = 20
_PAUSE_S = 0.1

# Ids and present times differ in each run.
_VARIES = re.compile(
    r"(topic_id: |log_append_time_ms: |max_time: |timestamp: |timestamp=|Timestamp |within )"
    r"(\[-?\d+, \d+\]|\d{13}|[\w-]{22})"
)
# Lists that have no order.
_UNORDERED = ("configs", "config_resources", "resources", "responses", "results", "topics")

_REQUEST = "c1> "


def exchanges(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Return where the answers of a conversation are, with the requests and the answers."""
    for at, line in enumerate(lines):
        if line.startswith(_REQUEST):
            yield at + 1, line, lines[at + 1]


def answer(client: Client | SocketClient, request: str) -> str:
    """Send the request of a line; return the line of its answer."""
    line = parse_request_line(request)
    assert line is not None, request
    # No name of a conversation has this prefix.
    names = LearntNames("\0")
    try:
        response: Any = client.call(build_structure(line, names), line.version)
    except EOFError:
        return f"{line.client}< closed"
    tree = tree_of(response, line.version, names)
    _sort(tree)
    text = " ".join(f"{name}={tree_text(value)}" for name, value in tree.items())
    constant = _VARIES.sub(r"\1*", text)
    return f"{line.client}< {constant}"


def _sort(tree: Tree) -> None:
    """Give each list without an order one."""
    for name, value in tree.items():
        for element in value if isinstance(value, list) else [value]:
            if isinstance(element, dict):
                _sort(element)
        if name in _UNORDERED and isinstance(value, list):
            value.sort(key=tree_text)


def _answer_of_kafka(client: SocketClient, request: str, expected: str) -> str:
    for _ in range(_TRIES):
        found = answer(client, request)
        if found == expected:
            break
        time.sleep(_PAUSE_S)
    return found


def main() -> None:
    """Send the conversations to the Kafka that the first argument names."""
    kafka, rewrites, differences = Address.parse(sys.argv[1]), "--rewrite" in sys.argv, 0
    for path in PATHS:
        lines = path.read_text().splitlines()
        with SocketClient(socket.create_connection(kafka, timeout=20)) as client:
            for at, request, expected in exchanges(lines):
                found = _answer_of_kafka(client, request, expected)
                if found != expected:
                    differences += 1
                    print(f"{path.name}: {request}\n    file  {expected}\n    Kafka {found}")
                lines[at] = found
        if rewrites:
            path.write_text("".join(f"{line}\n" for line in lines))
    print(f"{differences} answers differ")
    sys.exit(1 if differences and not rewrites else 0)


if __name__ == "__main__":
    main()
