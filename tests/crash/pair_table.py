"""The table in pairs.tsv: `python -m tests.crash.pair_table` makes it, in five minutes.

docs/crashes.md says what the signs are. A test compares the part that says which pairs are reached;
`make crash` searches for every planted bug by the pairs that the table names.
"""

import multiprocessing
from itertools import pairwise
from pathlib import Path

from tests.crash.operations import OPERATIONS
from tests.crash.pair_plants import PAIR_PLANTS, candidates, find_by
from tests.crash.pairs import AFTER, SWAPPING, WITHIN, pair_of, pairs, record_pair

TABLE = Path(__file__).parent / "pairs.tsv"
# When the second operation came, as the table says it. Planted bugs are capital letters.
_SIGNS = {AFTER: "a", WITHIN: "w", SWAPPING: "s"}
_WHENS = {sign: when for when, sign in _SIGNS.items()}
_SETTINGS = "plain"

Cells = dict[tuple[str, str], str]


def reached() -> Cells:
    """Do every pair; return when each was reached. A pair that fails raises its error."""
    found: Cells = {}
    for pair in pairs(_SETTINGS):
        recording = record_pair(pair.name, flush=True)
        marks = recording.marks
        if all(before < after for before, after in pairwise(marks)):
            key = pair.first.name, pair.second.name
            found[key] = found.get(key, "") + _SIGNS[pair.when]
    return found


def documented() -> Cells:
    """Return the cells of the table."""
    head, *body = [line.split("\t") for line in TABLE.read_text().splitlines()]
    return {
        (first, second): cell
        for first, *cells in body
        for second, cell in zip(head[1:], cells, strict=True)
    }


def claims() -> list[tuple[str, str]]:
    """Return each planted bug with each pair that finds it, as the table says."""
    return [
        (letter, f"{first}+{second}+{_WHENS[sign]}")
        for (first, second), cell in documented().items()
        for sign, letter in _claims_in(cell)
    ]


def search(letter: str, pair: str) -> str:
    """Search for a planted bug by a pair; see `find_by`."""
    (planted_bug,) = (each for each in PAIR_PLANTS if each.letter == letter)
    return find_by(planted_bug, pair_of(f"{pair}+{planted_bug.bounds}"))


def table(cells: Cells) -> str:
    """Return the lines of the table."""
    names = [operation.name for operation in OPERATIONS]
    rows = [["first, then", *names]]
    rows += [[first, *(cells.get((first, second), "") for second in names)] for first in names]
    return "".join("\t".join(row) + "\n" for row in rows)


def with_plants(cells: Cells, found: list[tuple[str, str]]) -> Cells:
    """Return cells with the planted bugs that were found by pairs, `FIRST+SECOND+WHEN`."""
    letters: Cells = {}
    for letter, pair in found:
        first, second, when = pair.split("+")
        key = first, second
        letters[key] = letters.get(key, "") + f"{_SIGNS[when]}{letter}"
    return {key: _joined(cell, letters.get(key, "")) for key, cell in cells.items()}


def _joined(cell: str, letters: str) -> str:
    """Return a cell: the signs, each followed by the bugs that were found then."""
    return "".join(
        sign
        + "".join(
            sorted(letters[at + 1] for at in range(0, len(letters), 2) if letters[at] == sign)
        )
        for sign in cell
    )


def _claims_in(cell: str) -> list[tuple[str, str]]:
    found = []
    sign = ""
    for each in cell:
        if each.isupper():
            found.append((sign, each))
        else:
            sign = each
    return found


def _search_all() -> list[tuple[str, str]]:
    work = [
        (planted_bug.letter, pair.name.rpartition("+")[0])
        for planted_bug in PAIR_PLANTS
        for pair in candidates(planted_bug)
    ]
    with multiprocessing.get_context("fork").Pool() as pool:
        found = pool.starmap(search, work, chunksize=1)
    return [claim for claim, by in zip(work, found, strict=True) if by]


if __name__ == "__main__":
    TABLE.write_text(table(with_plants(reached(), _search_all())))
