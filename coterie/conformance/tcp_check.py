"""Checks a running broker against the transcripts and says where it deviates.

    python -m coterie.conformance.tcp_check 127.0.0.1:9092 [FILE...]

Files that need the core, or hours, or settings the broker does not have, are passed over and
counted. The others run side by side, for they mostly wait.
"""

import secrets
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from coterie.conformance.core_broker import RESPONSES
from coterie.conformance.stage import LOOKS, SHARED, duration_or_number
from coterie.conformance.tcp_broker import TcpBroker
from coterie.conformance.tcp_driver import TcpDriver, client_differences
from coterie.conformance.transcript import Transcript, all_paths, read, request_parts
from coterie.conformance.words import duration_ms

# Files at once: each costs a few sockets and next to no time of its own.
_SIDE_BY_SIDE = 32
# No file is waited for longer than this.
_LONGEST_MS = 150_000

# What every transcript takes for granted unless it sets it.
_DEFAULTS = {"group.initial.rebalance.delay.ms": 3000, "group.max.size": 2_147_483_647}

_REQUESTS = {each.__name__.removesuffix("Request"): each for each in RESPONSES}


class Outcome(NamedTuple):
    """What became of one file: `verdict` is ok, differs, passed over, or broke.

    A file that pins a choice of ours "differs as known" where another broker chose otherwise.
    """

    transcript: Transcript
    verdict: str
    text: str = ""


def check(broker: TcpBroker, transcript: Transcript) -> Outcome:
    """Run one file."""
    reason = reason_to_pass_over(broker, transcript)
    if reason:
        return Outcome(transcript, "passed over", reason)
    driver = TcpDriver(broker, f"-{secrets.token_hex(4)}")
    try:
        actual = driver.run(transcript)
    except Exception as error:  # noqa: BLE001 - one broken run is one line of the report
        return Outcome(transcript, "broke", f"{type(error).__name__}: {error}")
    finally:
        driver.close()
    lines: list[str] = []
    for block, came in zip(transcript.blocks, actual, strict=True):
        wrong = client_differences(block, came)
        if wrong:
            lines += [f"{transcript.path.name}:{block.ruler + 1}", *wrong]
    if not lines:
        return Outcome(transcript, "ok")
    verdict = "differs as known" if "ours" in transcript.needs else "differs"
    return Outcome(transcript, verdict, "\n".join(lines))


def reason_to_pass_over(broker: TcpBroker, transcript: Transcript) -> str:
    """Why a file cannot be run against this broker; empty if it can."""
    if transcript.needs & {"core", "time"}:
        return f"needs {', '.join(sorted(transcript.needs))}"
    settings = dict(_DEFAULTS)
    total_ms = 0
    configured: set[str] = set()
    for block in transcript.blocks:
        for command in block.commands:
            verb, _, rest = command.text.partition(" ")
            request = request_parts(command.text)
            if request is not None and not broker.serves(_REQUESTS[request[1]], request[2]):
                return f"needs {request[1]} v{request[2]}"
            if request is None and verb not in SHARED | LOOKS:
                return f"needs core for {verb}"
            if verb == "tick":
                total_ms += duration_ms(rest)
            if verb == "config":
                for name, _, value in (each.partition("=") for each in rest.split()):
                    if name in configured:
                        return f"changes {name} on the way"
                    configured.add(name)
                    settings[name] = duration_or_number(value)
    if total_ms > _LONGEST_MS:
        return f"takes {total_ms // 1000} s"
    for name, wanted in settings.items():
        has = broker.setting(name)
        if has != str(wanted):
            return f"needs {name}={wanted}, the broker has {has}"
    return ""


def main(arguments: list[str]) -> int:
    """Check the broker at the first argument; the exit status says whether nothing differed."""
    address, *names = arguments
    paths = [Path(name) for name in names] or all_paths()
    broker = TcpBroker(address)
    counts: Counter[str] = Counter()
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        for outcome in pool.map(lambda path: check(broker, read(path)), paths):
            counts[outcome.verdict] += 1
            name = outcome.transcript.path.relative_to(outcome.transcript.path.parents[1])
            if outcome.verdict != "ok":
                sys.stdout.write(f"{outcome.verdict:18}{name}\n")
                sys.stdout.writelines(f"    {line}\n" for line in outcome.text.splitlines())
    broker.close()
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    sys.stdout.write(f"{address}: {told}\n")
    return 1 if counts["differs"] or counts["broke"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
