"""`python -m tests.fuzz --seconds 180` (`make fuzz`): mutated frames, as many as fit in the time.

Half of them are fed to a broker without sockets, one frame a connection; the other half go over
real sockets to a broker on another thread, many frames a connection, beside an honest client whose
requests must all be answered. First the canary: a broker with a planted mistake, which must be
found.
"""

import argparse
import random
import sys
import time

from tests.fuzz.amplification import costs
from tests.fuzz.canary import find_canary
from tests.fuzz.corpus import frames
from tests.fuzz.live import LiveTarget
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding, Target

_REPORT_EVERY_S = 10.0
_SHOWN = 5


def main() -> int:
    """Fuzz for a while; the exit status says whether something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=None, help="to repeat a run")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    corpus = frames()
    print(f"fuzz: seed {seed}, {len(corpus)} golden frames; canary found after {find_canary(seed)}")
    try:
        _dearest()
        deadline = time.monotonic() + arguments.seconds
        _without_sockets(Mutator(corpus, seed), deadline - arguments.seconds / 2)
        _over_sockets(Mutator(corpus, seed + 1), deadline)
    except Finding as finding:
        print(f"fuzz: found with seed {seed}: {finding}", file=sys.stderr)
        return 1
    return 0


def _dearest() -> None:
    """What the frames cost that are made to cost most."""
    found = sorted(costs(metered=True), reverse=True)
    print(f"fuzz: every array of every API filled; the dearest of {len(found)} frames:")
    for cost in found[:_SHOWN]:
        print(
            f"    {cost.milliseconds:6.1f} ms, {cost.mebibytes:5.1f} MiB"
            f" for {cost.frame_bytes:9,} bytes: {cost.name}"
        )


def _without_sockets(mutator: Mutator, deadline: float) -> None:
    target = Target()
    report = time.monotonic() + _REPORT_EVERY_S
    while time.monotonic() < deadline:
        for _ in range(500):
            target.feed(mutator.next())
        target.pass_time()
        if time.monotonic() >= report:
            report += _REPORT_EVERY_S
            _report(target)
    _report(target)
    print(f"fuzz: slowest frame {target.slowest_ms:.1f} ms: {target.slowest[:64].hex()}")


def _report(target: Target) -> None:
    print(
        f"fuzz: {target.frames:,} frames: {target.answered:,} answered, {target.refused:,} refused,"
        f" {target.waiting:,} wait or have no answer; slowest {target.slowest_ms:.1f} ms"
    )


def _over_sockets(mutator: Mutator, deadline: float) -> None:
    with LiveTarget() as target:
        while time.monotonic() < deadline:
            for _ in range(50):
                target.feed(mutator)
            target.honest_request()
        print(
            f"fuzz: {target.connections:,} connections, {target.sent:,} frames sent;"
            f" {target.honest:,} honest requests in between were answered"
        )


if __name__ == "__main__":
    sys.exit(main())
