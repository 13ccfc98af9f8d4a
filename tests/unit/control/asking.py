"""The control port of a broker in this process, asked without a socket."""

import asyncio
import json
from typing import Any, NamedTuple

from coterie.control.application import ControlApplication
from coterie.control.broker_operations import BROKER
from coterie.control.cluster_control import ClusterControl
from coterie.control.cluster_operations import CLUSTER
from coterie.control.control import Control
from coterie.testing import Broker, Cluster

TOKEN = "secret"


class Answered(NamedTuple):
    """A response: its status, its headers, and its body as JSON or text."""

    status: int
    headers: dict[bytes, bytes]
    body: Any


class Asking:
    """The application of a broker, or of several, and what went wrong in it."""

    def __init__(self, kafka: Broker | Cluster) -> None:
        self.failures: list[BaseException] = []
        self.was_closed = False
        is_single = isinstance(kafka, Broker)
        self.application = ControlApplication(
            Control(kafka) if isinstance(kafka, Broker) else ClusterControl(kafka),
            TOKEN,
            BROKER if is_single else CLUSTER,
            when_closed=self._closed,
            report_failure=self.failures.append,
        )

    def _closed(self) -> None:
        self.was_closed = True

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answered:
        """Return the answer to a request; `data` is a body that is no JSON."""
        return asyncio.run(self.asked(method, path, body, query=query, headers=headers, data=data))

    async def asked(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: str = "",
        headers: dict[str, str] | None = None,
        data: bytes | None = None,
        gone: asyncio.Event | None = None,
    ) -> Answered:
        """Return the answer; the client goes away when `gone` is set."""
        content = data if data is not None else b"" if body is None else json.dumps(body).encode()
        head = {
            "host": "127.0.0.1:1234",
            "authorization": f"Bearer {TOKEN}",
            "content-type": "application/json",
            **(headers or {}),
        }
        # In two parts, as large bodies come.
        middle = len(content) // 2
        events = [
            {"type": "http.request", "body": content[:middle], "more_body": True},
            {"type": "http.request", "body": content[middle:]},
        ]

        async def receive() -> Any:
            if events:
                return events.pop(0)
            await (asyncio.Event() if gone is None else gone).wait()
            return {"type": "http.disconnect"}

        sent: list[Any] = []

        async def send(event: Any) -> None:
            sent.append(event)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(key.encode(), value.encode()) for key, value in head.items()],
        }
        await self.application(scope, receive, send)
        if not sent:
            return Answered(0, {}, None)
        answered = dict(sent[0]["headers"])
        text = sent[1]["body"].decode()
        is_json = answered[b"content-type"] == b"application/json"
        return Answered(sent[0]["status"], answered, json.loads(text) if is_json else text)
