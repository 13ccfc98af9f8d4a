"""A schema registry for tests: the part of Confluent's REST API that readers of records use.

It listens on the loopback address and speaks real HTTP. Schemas of Protobuf are given as text, and
as descriptors to those that ask for `format=serialized`, as Confluent's does.
"""

import base64
import json
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from google.protobuf.descriptor_pb2 import FileDescriptorProto


class Schema(NamedTuple):
    """A schema as it is registered.

    Attributes:
        text: the schema; of Protobuf the text of the file, which nobody here reads.
        kind: AVRO, JSON or PROTOBUF.
        references: the schemas that it needs: name, subject and version.
        descriptor: the file of Protobuf.
    """

    text: str
    kind: str = "AVRO"
    references: Sequence[tuple[str, str, int]] = ()
    descriptor: FileDescriptorProto | None = None


class TestRegistry:
    """A registry that is running.

    Attributes:
        url: its address.
        asked: the paths of the requests, in their order.
        authorization: what a request must have; None for nothing.
        is_ill: whether it answers nothing but that it has failed.
    """

    # It is no class of tests.
    __test__ = False

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.authorization: str | None = None
        self.is_ill = False
        self._by_id: dict[int, Schema] = {}
        self._by_subject: dict[tuple[str, int], int] = {}

    def register(self, subject: str, schema: Schema, schema_id: int | None = None) -> int:
        """Register a schema as the next version of a subject, and return its id."""
        number = len(self._by_id) + 1 if schema_id is None else schema_id
        version = 1 + sum(name == subject for name, _ in self._by_subject)
        self._by_id[number] = schema
        self._by_subject[subject, version] = number
        return number

    def answer(self, target: str, authorization: str | None) -> tuple[int, Any]:
        """Return the status and the body for a request."""
        self.asked.append(target)
        parts = urlsplit(target)
        if self.is_ill:
            return 500, {"error_code": 50001, "message": "the store is away"}
        if self.authorization not in (None, authorization):
            return 401, {"error_code": 401, "message": "Unauthorized"}
        match [unquote(each) for each in parts.path.strip("/").split("/")]:
            case ["schemas", "ids", number]:
                found = self._by_id.get(int(number))
            case ["subjects", subject, "versions", version]:
                found = self._by_id.get(self._by_subject.get((subject, int(version)), -1))
            case _:
                found = None
        if found is None:
            return 404, {"error_code": 40403, "message": "Schema not found"}
        text = found.text
        if found.descriptor is not None and parse_qs(parts.query).get("format") == ["serialized"]:
            text = base64.b64encode(found.descriptor.SerializeToString()).decode()
        body: dict[str, Any] = {"schema": text}
        if found.kind != "AVRO":
            body["schemaType"] = found.kind
        if found.references:
            keys = ("name", "subject", "version")
            body["references"] = [dict(zip(keys, each, strict=True)) for each in found.references]
        return 200, body


def framed(schema_id: int, body: bytes, indexes: bytes = b"") -> bytes:
    """Return a part of a record with the id of its schema, and the place of a message type."""
    return struct.pack(">bI", 0, schema_id) + indexes + body


@contextmanager
def registry() -> Iterator[TestRegistry]:
    """Run a registry."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = running.answer(self.path, self.headers.get("Authorization"))
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running = TestRegistry(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
