"""`python -m tests.attacks`: attacks at full size against a server of its own, about two minutes.

Prints what each took of the server, beside the most that it may take; the exit status is 1 if
something is above that. `--scale 0.05` is what `make test` runs.
"""

import argparse
import os
import sys

from tests.attacks.attacks import run


def main() -> int:
    """Run all attacks and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="how many clients, of the full")
    scale = parser.parse_args().scale
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"attacks at {scale:g} of the full size; the load of the machine is {load}")
    figures = run(scale)
    for each in figures:
        print(each)
    return int(any(each.is_above for each in figures))


if __name__ == "__main__":
    sys.exit(main())
