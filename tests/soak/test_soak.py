"""A short slice of the soak, and proof that its oracles can fail."""

import shlex
import sys
from pathlib import Path

import pytest

from tests.soak.__main__ import Soak
from tests.soak.ledger import Ledger
from tests.soak.samples import GROWTH_KIB, OTHER_FILES, Sample, not_level

SLICE_S = 12.0
FILE_BOUND = 50
ORDERS = ("orders", 0)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_slice_has_no_findings(tmp_path: Path) -> None:
    soak = Soak(tmp_path, seed=7)
    workload = soak.run(SLICE_S)
    counts = workload.ledger.counts
    assert workload.ledger.violations == []
    assert soak.log_errors == []
    assert len(soak.samples) > SLICE_S / 2
    for name in ("records read back", "commits read back", "memberships", "topics deleted"):
        assert counts[name], f"the slice had no {name}"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_server_that_leaks_handles_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COTERIE_TEST_COMMAND", f"{shlex.quote(sys.executable)} -m tests.soak.leak")
    soak = Soak(tmp_path, seed=7)
    workload = soak.run(SLICE_S)
    assert any(each.startswith("open files") for each in soak.findings(workload))


def samples(
    *, growth_kib: int = 0, files: int = 0, sockets: int = 0, threads: int = 0
) -> list[Sample]:
    """Samples of a process that grows by so much from one to the next."""
    return [
        Sample(
            float(at),
            40_000 + at * growth_kib,
            20 + at * files,
            50 + at * sockets,
            5 + at * threads,
            0.0,
        )
        for at in range(100)
    ]


@pytest.mark.parametrize(
    "level",
    [
        samples(),
        # The files of logs may become more until the end, up to their bound.
        [
            each._replace(files=min(each.files, FILE_BOUND + OTHER_FILES))
            for each in samples(files=1)
        ],
    ],
)
def test_level_process_passes(level: list[Sample]) -> None:
    assert not_level(level, FILE_BOUND) == []


@pytest.mark.parametrize(
    ("growing", "word"),
    [
        (samples(growth_kib=GROWTH_KIB // 20), "memory"),
        (samples(files=1), "open files"),
        (samples(sockets=2), "sockets"),
        (samples(threads=1), "threads"),
    ],
)
def test_growing_process_is_found(growing: list[Sample], word: str) -> None:
    (finding,) = not_level(growing, FILE_BOUND)
    assert finding.startswith(word)


def ledger(*values: bytes) -> Ledger:
    """A ledger of records that were acknowledged in one partition."""
    made = Ledger()
    for offset, value in enumerate(values):
        made.produced(ORDERS, offset, value)
    return made


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ({0: b"a"}, "lost offset 1"),
        ({0: b"a", 1: b"x"}, "lost offset 1"),
        ({0: b"a", 1: b"b", 2: b"b"}, "a record twice"),
        ({0: b"a", 1: b"b", 3: b"c"}, "have gaps"),
    ],
)
def test_wrong_records_are_found(records: dict[int, bytes], words: str) -> None:
    made = ledger(b"a", b"b")
    made.read_back(ORDERS, records)
    assert any(words in violation for violation in made.violations)


def test_right_records_pass() -> None:
    made = ledger(b"a", b"b")
    made.read_back(ORDERS, {0: b"a", 1: b"b", 2: b"not acknowledged"})
    assert made.violations == []


def test_offset_that_is_given_twice_is_found() -> None:
    made = ledger(b"a")
    made.produced(ORDERS, 0, b"b")
    assert made.violations


@pytest.mark.parametrize(("offset", "right"), [(4, False), (5, True), (6, True), (-1, False)])
def test_commit_that_went_back_is_found(offset: int, *, right: bool) -> None:
    made = Ledger()
    made.committing("billing", ORDERS, 5)
    made.committed("billing", ORDERS, 5)
    made.committing("billing", ORDERS, 6)
    made.fetched("billing", ORDERS, offset)
    assert (made.violations == []) is right
