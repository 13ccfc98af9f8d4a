"""`coterie serve --brokers N`, where lines at a Unix socket kill, stop and start single brokers.

The variable COMMANDS names the socket. A line is `kill 2`, `stop 2` or `start 2`; the answer is
`done`, or what is wrong. A broker may be started that runs.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence

from coterie.address import Address
from coterie.cli.main import main
from coterie.server import run_cluster
from coterie.server.brokers import Cluster, UnknownNode
from coterie.server.config.listeners import CannotListen, Listener


class CommandedCluster(Cluster):
    """Brokers that carry out lines."""

    async def start(self, listeners: Mapping[int, Sequence[Listener]]) -> dict[int, list[Address]]:
        """Start all brokers, and listen for lines."""
        started = await super().start(listeners)
        # A server without a reference is closed when the search for reference cycles finds it.
        self._commands = await asyncio.start_unix_server(self._converse, os.environ["COMMANDS"])
        return started

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            verb, node_id = line.decode().split()
            try:
                await self._carry_out(verb, int(node_id))
                answer = "done"
            except (UnknownNode, CannotListen) as error:
                answer = str(error)
            writer.write(f"{answer}\n".encode())
        writer.close()

    async def _carry_out(self, verb: str, node_id: int) -> None:
        match verb:
            case "kill":
                self.kill(node_id)
            case "stop":
                await self.stop_broker(node_id)
            case "start":
                if node_id not in self.brokers:
                    await self.start_broker(node_id)
            case _:
                raise UnknownNode(f"no such command: {verb}")


if __name__ == "__main__":
    run_cluster.Cluster = CommandedCluster  # type: ignore[attr-defined]
    main(prog_name="coterie")
