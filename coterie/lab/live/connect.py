"""Workers of Kafka Connect 4.3.1: each topic of the workload is a connector with as many tasks.

A worker does not say in lines what it runs, but its log does: for each generation what it was
assigned, what it had to stop, and the delay of the leader. The log is turned into lines here.
"""

import contextlib
import json
import re
import threading
import time
import urllib.request
from pathlib import Path

from coterie.lab.live.clients import LiveClient, LiveRun, PodProcess
from coterie.lab.live.parts import CONNECT_4, jars_of, java_command
from coterie.processes import Child, free_port
from coterie.processes.lines import Writer

_HEAP_MB = 320
_CONNECTOR_CLASS = "org.apache.kafka.connect.tools.VerifiableSourceConnector"
_SESSION_MS, _HEARTBEAT_MS, _REBALANCE_MS = 10_000, 3_000, 60_000
# Lines begin with milliseconds since 1970.
_LOG4J = """<Configuration><Appenders><Console name="out">
<PatternLayout pattern="%d{UNIX_MILLIS} %p %m%n"/></Console></Appenders>
<Loggers><Root level="WARN"><AppenderRef ref="out"/></Root>
<Logger name="org.apache.kafka.connect.runtime.distributed" level="INFO"/></Loggers>
</Configuration>
"""
_JOINED = re.compile(
    r"^(?P<ms>\d+) .*Joined group at generation (?P<generation>-?\d+) .*"
    r"taskIds=\[(?P<assigned>[^\]]*)\].*revokedTaskIds=\[(?P<revoked>[^\]]*)\].*"
    r"delay=(?P<delay>\d+)"
)


class Connect(LiveClient):
    """Workers, each in a process of its own."""

    summary = "workers of Kafka Connect 4.3.1, with tasks of VerifiableSource"
    machines = ("connect", "connect-eager")
    software = "Kafka Connect 4.3.1"
    produces = False
    speaks = False

    def __init__(self) -> None:
        self._jars = Path()
        self._logs: list[WorkerLog] = []
        self._urls: dict[str, str] = {}

    def prepare(self, run: LiveRun) -> None:
        """Fetch the jars."""
        self._jars = jars_of(CONNECT_4, run.report)
        (run.directory / "log4j2.xml").write_text(_LOG4J, encoding="utf-8")

    def begin(self, run: LiveRun) -> None:
        """Create the connectors as soon as a worker takes requests."""
        threading.Thread(target=self._create_connectors, args=(run,), daemon=True).start()

    def command(self, run: LiveRun, member: PodProcess) -> list[str]:
        """Return the command line of a worker."""
        url = self._urls[member.pod] = f"http://127.0.0.1:{free_port()}"
        path = run.directory / f"{member.identity}.properties"
        path.write_text(_worker_properties(run, member, url), encoding="utf-8")
        return java_command(
            self._jars,
            "org.apache.kafka.connect.cli.ConnectDistributed",
            [str(path)],
            heap_mb=_HEAP_MB,
            options=[
                "-XX:TieredStopAtLevel=1",
                f"-Dlog4j2.configurationFile={run.directory / 'log4j2.xml'}",
            ],
        )

    def started(self, run: LiveRun, member: PodProcess, child: Child) -> None:
        """Follow the log of a worker."""
        del run
        self._logs.append(WorkerLog(child.log, member.lines))

    def observe(self, run: LiveRun) -> None:
        """Turn what is new in the logs into lines."""
        del run
        for log in self._logs:
            log.read()

    def _create_connectors(self, run: LiveRun) -> None:
        left = list(run.counts)
        while left:
            time.sleep(0.5)
            for url in list(self._urls.values()):
                with contextlib.suppress(OSError):
                    _create_connector(url, left[0], run.counts[left[0]], run.parameters.rate)
                    del left[0]
                    break


class WorkerLog:
    """The log of one worker, and the lines about it."""

    def __init__(self, log: Path, lines: Path) -> None:
        self._log = log
        self._lines = str(lines)
        self._read = 0

    def read(self) -> None:
        """Write a line for each generation that is new in the log."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            whole, newline, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for text in whole.decode(errors="replace").splitlines():
            found = _JOINED.match(text)
            if found is not None:
                self._write(found)

    def _write(self, found: re.Match[str]) -> None:
        at_us = int(found["ms"]) * 1_000
        generation, delay_ms = int(found["generation"]), int(found["delay"])
        with contextlib.closing(Writer(self._lines)) as writer:
            writer.write_at(at_us, "generation", generation=generation)
            writer.write_at(at_us, "revoked", partitions=_tasks(found["revoked"]))
            writer.write_at(at_us, "assigned", partitions=_tasks(found["assigned"]))
            if delay_ms:
                writer.write_at(at_us, "delay", ms=delay_ms)


def _tasks(text: str) -> list[tuple[str, int]]:
    """Return the tasks in a list of `connector-number`."""
    words = [word.strip().rpartition("-") for word in text.split(",") if word.strip()]
    return [(connector, int(number)) for connector, _, number in words]


def _worker_properties(run: LiveRun, member: PodProcess, url: str) -> str:
    parameters = run.parameters
    converter = "org.apache.kafka.connect.storage.StringConverter"
    values = {
        "bootstrap.servers": run.bootstrap,
        "group.id": run.group,
        "client.id": member.identity,
        "key.converter": converter,
        "value.converter": converter,
        "offset.flush.interval.ms": parameters.commit_ms or 5_000,
        "listeners": url,
        "plugin.discovery": "SERVICE_LOAD",
        "connect.protocol": "eager" if run.machine == "connect-eager" else "sessioned",
        "session.timeout.ms": parameters.session_ms or _SESSION_MS,
        "heartbeat.interval.ms": parameters.heartbeat_ms or _HEARTBEAT_MS,
        "rebalance.timeout.ms": parameters.rebalance_ms or _REBALANCE_MS,
        "scheduled.rebalance.max.delay.ms": parameters.connect_delay_ms,
    }
    for name in ("config", "offset", "status"):
        values[f"{name}.storage.topic"] = f"{run.group}-{name}"
        values[f"{name}.storage.replication.factor"] = 1
    values |= {"offset.storage.partitions": 1, "status.storage.partitions": 1}
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _create_connector(url: str, name: str, tasks: int, rate: int) -> None:
    """Create a connector; an OSError means that the worker does not take it yet."""
    config = {
        "connector.class": _CONNECTOR_CLASS,
        "tasks.max": str(tasks),
        "topic": name,
        "throughput": str(rate),
    }
    request = urllib.request.Request(  # noqa: S310 - loopback
        f"{url}/connectors/{name}/config",
        json.dumps(config).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=30).close()  # noqa: S310 - loopback
