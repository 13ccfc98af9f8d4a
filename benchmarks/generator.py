"""The load generator's process: reads one job from standard input, writes one outcome to standard
output.

Both are JSON objects. The outcome is {"numbers": ..., "errors": ..., "others_share": ...,
"versions": ...}, or {"not_available": reason} if the broker does not support the measurement. If
the generator itself fails, it ends with a traceback and an exit status.

`echo '{"scenario": "heartbeat", "row": "closed", "host": "127.0.0.1", "port": 9092}' | \
    python -m benchmarks.generator`
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from dataclasses import asdict

import uvloop

from benchmarks.address import NotLoopback, require_loopback
from benchmarks.measures import Outcome
from benchmarks.requests import NotServed, Refused
from benchmarks.session import Job
from coterie.protocol.errors import DECODE_ERRORS


class GeneratorFault(Exception):  # noqa: N818 - the name says whose fault it is
    """A callback of the generator raised; the cause is chained."""


async def run(job: Job) -> Outcome:
    """Measure one row of one scenario.

    Raises:
        NotLoopback: the job's host is not on this machine; nothing was sent.
        NotServed, Refused, OSError, TimeoutError: the broker does not support it, or failed.
        GeneratorFault: the generator itself failed.
    """
    require_loopback(job.host)
    # Imported after the check of the address: some scenarios import the server's code.
    from benchmarks.scenarios import SCENARIOS

    faults: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: faults.append(context.get("exception", RuntimeError(str(context))))
    )
    scenario = SCENARIOS[job.scenario]
    assert scenario.run is not None, "start-up is measured by the driver"
    try:
        return await scenario.run(job, scenario.row(job.row))
    finally:
        if faults:
            # An exception in a callback looks like a connection that the broker closed.
            raise GeneratorFault from faults[0]


def main() -> None:
    """Read the job, run it, write the outcome."""
    # A group of 1,000 members has 1,001 connections; the soft limit is often 1,024.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    job = Job(**json.load(sys.stdin))
    try:
        outcome: dict[str, object] = asdict(uvloop.run(run(job)))
    except (NotLoopback, NotServed, Refused, OSError) as error:
        # A TimeoutError is an OSError and has no text.
        outcome = {"not_available": str(error) or "the broker did not answer in time"}
    except DECODE_ERRORS as error:
        outcome = {"not_available": f"a response cannot be decoded: {error}"}
    json.dump(outcome, sys.stdout)


if __name__ == "__main__":
    main()
