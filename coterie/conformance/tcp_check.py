"""Checks a running broker against the transcripts and reports every difference.

    python -m coterie.conformance.tcp_check 127.0.0.1:9092 [FILE...]

Files that need the core, hours of time, or settings that the broker does not have are skipped and
counted. The others run in parallel because they mostly wait.
"""

import secrets
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from coterie.conformance.commands import CLIENT_COMMANDS, INSPECTION_COMMANDS, setting_value
from coterie.conformance.harness import GROUP_APIS
from coterie.conformance.syntax import parse_duration_ms
from coterie.conformance.tcp_broker import TcpBroker
from coterie.conformance.tcp_driver import TcpDriver, client_differences
from coterie.conformance.transcript import Transcript, all_paths, parse_request_line, read

# Files at once. Each has a few sockets and uses almost no processor time.
_PARALLEL_FILES = 32
# A file whose ticks sum up to more is skipped.
_MAX_DURATION_MS = 150_000

# The settings that a transcript relies on unless it changes them.
_DEFAULTS = {"group.initial.rebalance.delay.ms": 3000, "group.max.size": 2_147_483_647}

_REQUESTS = {api.name: request for request, api in GROUP_APIS.items()}


class Outcome(NamedTuple):
    """The result of one file.

    Attributes:
        transcript: the file.
        verdict: "ok", "differs", "skipped" or "failed"; "differs as known" for a file that pins a
            choice of ours which another broker made otherwise.
        text: the differences, or the reason.
    """

    transcript: Transcript
    verdict: str
    text: str = ""


def check(broker: TcpBroker, transcript: Transcript) -> Outcome:
    """Run one file."""
    reason = reason_to_skip(broker, transcript)
    if reason:
        return Outcome(transcript, "skipped", reason)
    driver = TcpDriver(broker, f"-{secrets.token_hex(4)}")
    try:
        actual = driver.run(transcript)
    except Exception as error:  # noqa: BLE001 - a failed run is one line of the report
        return Outcome(transcript, "failed", f"{type(error).__name__}: {error}")
    finally:
        driver.close()
    lines: list[str] = []
    for block, output in zip(transcript.blocks, actual, strict=True):
        differences = client_differences(block, output)
        if differences:
            lines += [f"{transcript.path.name}:{block.separator + 1}", *differences]
    if not lines:
        return Outcome(transcript, "ok")
    verdict = "differs as known" if "ours" in transcript.needs else "differs"
    return Outcome(transcript, verdict, "\n".join(lines))


def reason_to_skip(broker: TcpBroker, transcript: Transcript) -> str:
    """Return why a file cannot run against this broker; empty if it can."""
    if transcript.needs & {"core", "time"}:
        return f"needs {', '.join(sorted(transcript.needs))}"
    settings = dict(_DEFAULTS)
    total_ms = 0
    configured: set[str] = set()
    for block in transcript.blocks:
        for command in block.commands:
            verb, _, rest = command.text.partition(" ")
            request = parse_request_line(command.text)
            if request is not None and not broker.serves(_REQUESTS[request.api], request.version):
                return f"needs {request.api} v{request.version}"
            if request is None and verb not in CLIENT_COMMANDS | INSPECTION_COMMANDS:
                return f"needs core for {verb}"
            if verb == "tick":
                total_ms += parse_duration_ms(rest)
            if verb == "config":
                for name, _, value in (each.partition("=") for each in rest.split()):
                    if name in configured:
                        return f"changes {name} more than once"
                    configured.add(name)
                    settings[name] = setting_value(value)
    if total_ms > _MAX_DURATION_MS:
        return f"takes {total_ms // 1000} s"
    for name, expected in settings.items():
        actual = broker.setting(name)
        if actual != str(expected):
            return f"needs {name}={expected}, the broker has {actual}"
    return ""


def main(arguments: list[str]) -> int:
    """Check the broker at the first argument; return 0 only if nothing differed."""
    address, *names = arguments
    paths = [Path(name) for name in names] or all_paths()
    broker = TcpBroker(address)
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(_PARALLEL_FILES) as pool:
        for outcome in pool.map(lambda path: check(broker, read(path)), paths):
            counts[outcome.verdict] += 1
            name = outcome.transcript.path.relative_to(outcome.transcript.path.parents[1])
            if outcome.verdict != "ok":
                sys.stdout.write(f"{outcome.verdict:18}{name}\n")
                sys.stdout.writelines(f"    {line}\n" for line in outcome.text.splitlines())
    broker.close()
    summary = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    sys.stdout.write(f"{address}: {summary}\n")
    return 1 if counts["differs"] or counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
