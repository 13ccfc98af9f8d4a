"""Run seeds: `python -m tests.simulation.transactions SEED [COUNT]`."""

import sys
from collections import Counter

from tests.simulation.transactions.world import World


def main() -> None:
    """Run seeds and print what happened in them."""
    first = int(sys.argv[1])
    for seed in range(first, first + int(sys.argv[2] if len(sys.argv) > 2 else 1)):
        world = World(seed)
        world.run()
        ends = Counter(
            {True: "committed", False: "aborted", None: "unknown"}[each.outcome]
            for producer in world.producers
            for each in producer.transactions
        )
        print(f"seed {seed}: {world.kills} kills, {dict(ends)}")


if __name__ == "__main__":
    main()
