"""What a form of Coterie does, as lines: the bytes of every message, the traces of simulations.

`python -m compilation.traces` prints the lines of the form that is imported; both forms have to
print the same. With `--codecs` it leaves out the simulations.
"""

import hashlib
import sys

import coterie
from tests.codecs.catalogue import MESSAGES, versions_of
from tests.codecs.instances import RandomValues, build, project
from tests.simulation.campaign import PROFILES, run

_INSTANCES = 20
_SEEDS = range(6)


def main() -> None:
    """Print one line for each message and for each simulation."""
    print(f"# {coterie.__file__}")
    for cls in MESSAGES:
        digest = hashlib.sha256()
        for number in range(_INSTANCES):
            full = build(cls, RandomValues(f"{cls.__name__} {number}"))
            for version in versions_of(cls):
                message = project(full, version)
                data = message.encode(version)
                digest.update(b"%d %d " % (version, len(data)) + data)
                digest.update(repr(cls.decode(data, version)).encode())
                if cls.api_key is not None and cls.__name__.endswith("Response"):
                    digest.update(cls.framer(version)(message, number))
        print(f"{cls.__name__} {digest.hexdigest()[:16]}")
    for kind in PROFILES if "--codecs" not in sys.argv else ():
        for seed in _SEEDS:
            result = run(kind, seed)
            print(f"{result.name}: {result.events} events, trace {result.digest} {result.failure}")


if __name__ == "__main__":
    main()
