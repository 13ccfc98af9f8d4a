"""`coterie` without the markers of some transactions, as if it were killed before it writes them.

Their transactional ids have a word in them, the first argument.
"""

import sys
from collections.abc import Callable

from coterie.cli.main import main
from coterie.protocol.control_records import TransactionMarkers
from coterie.server.transactions.markers import MarkerWriter


def cut_off(word: str) -> None:
    """Let no marker be written for transactional ids with this word."""
    write = MarkerWriter.write

    def write_others(
        self: MarkerWriter, markers: TransactionMarkers, done: Callable[[], None]
    ) -> None:
        if word not in markers.transactional_id:
            write(self, markers, done)

    MarkerWriter.write = write_others  # type: ignore[method-assign]


if __name__ == "__main__":
    cut_off(sys.argv.pop(1))
    main(prog_name="coterie")
