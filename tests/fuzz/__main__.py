"""`python -m tests.fuzz --seconds 180` (`make fuzz`): as many mutated frames as the time allows.

First comes the canary: a broker with a planted bug, which must be found. Then for two fifths of the
time a broker without sockets gets one frame on each connection. For as long a broker on another
thread gets many frames on each connection over real sockets, while every request of a well-behaved
client must be answered. The last fifth has logins and TLS with changed bytes.
"""

import argparse
import random
import sys
import time

from tests.fuzz.amplification import costs
from tests.fuzz.canary import find_canary
from tests.fuzz.corpus import frames
from tests.fuzz.encrypted import TlsTarget
from tests.fuzz.live import LiveTarget
from tests.fuzz.logins import LoginTarget
from tests.fuzz.mutation import Mutator
from tests.fuzz.target import Finding, Target

_REPORT_EVERY_S = 10.0
_SHOWN = 5


def main() -> int:
    """Fuzz for some time; return 1 if a bug was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--seed", type=int, default=None, help="repeats a run")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if arguments.seed is None else arguments.seed
    corpus = frames()
    after = find_canary(seed)
    print(f"fuzz: seed {seed}, {len(corpus)} frames; planted bug found after {after}")
    try:
        _most_expensive()
        begin, fifth_s = time.monotonic(), arguments.seconds / 5
        _without_sockets(Mutator(corpus, seed), begin + 2 * fifth_s)
        _over_sockets(Mutator(corpus, seed + 1), begin + 4 * fifth_s)
        _before_login(seed, begin + 4.5 * fifth_s, begin + 5 * fifth_s)
    except Finding as finding:
        print(f"fuzz: found with seed {seed}: {finding}", file=sys.stderr)
        return 1
    return 0


def _most_expensive() -> None:
    """Print the cost of the most expensive frames."""
    found = sorted(costs(metered=True), reverse=True)
    print(f"fuzz: every array of every API filled; the most expensive of {len(found)} frames:")
    for cost in found[:_SHOWN]:
        print(
            f"    {cost.milliseconds:6.1f} ms, {cost.mebibytes:5.1f} MiB"
            f" for {cost.frame_bytes:9,} bytes: {cost.name}"
        )


def _without_sockets(mutator: Mutator, deadline: float) -> None:
    target = Target()
    report = time.monotonic() + _REPORT_EVERY_S
    while time.monotonic() < deadline:
        for number in range(500):
            # The one before may leave its client id, the one behind be read as part of it.
            together = 1 if number % 4 else 3
            target.feed(b"".join(mutator.next() for _ in range(together)))
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
            target.regular_request()
        print(
            f"fuzz: {target.connections:,} connections, {target.sent:,} frames sent;"
            f" {target.regular:,} requests of the regular client were answered"
        )


def _before_login(seed: int, logins_until: float, tls_until: float) -> None:
    logins = LoginTarget(seed)
    while time.monotonic() < logins_until:
        logins.feed()
    print(
        f"fuzz: {logins.outcomes.total():,} logins with changed messages:"
        f" {dict(logins.outcomes)}; one took {logins.peak_bytes / 1024:,.0f} KiB at most"
    )
    tls = TlsTarget(seed)
    while time.monotonic() < tls_until:
        tls.feed()
    print(f"fuzz: {tls.outcomes.total():,} clients of TLS: {dict(tls.outcomes)}")


if __name__ == "__main__":
    sys.exit(main())
