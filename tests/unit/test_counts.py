"""The program that counts the size of the code base counts what it says."""

from pathlib import Path

from tests.counts import source
from tests.counts.__main__ import ROOT, table, ways

_PRODUCT = """class Log:
    def __init__(self):
        self._end = 0
        self._size = 0
        assert self._end == 0
"""
_TEST = """class Fake:
    def __init__(self):
        self._size = 1

def test_log(log):
    assert log._end + log._size + log._asdict
"""


def test_files_and_private_attributes_are_counted(tmp_path: Path) -> None:
    for folder, text in (("coterie/storage", _PRODUCT), ("tests", _TEST)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "log.py").write_text(text)
    (tmp_path / "coterie/storage/index.py").write_text("SIZE = 1\n" * source.SMALL_FILE_LINES)

    rooms = source.by_room(tmp_path)

    assert rooms["coterie/storage"] == {"files": 2, "lines": 45, "small": 1}
    # The test has a `_size` of its own, and no class of the product has an `_asdict`.
    assert source.private_accesses(tmp_path) == 1
    assert source.assertions(tmp_path)["coterie/storage"] == 1.0


def test_the_way_of_a_request_leads_through_its_handler_and_the_coordinator() -> None:
    found = ways(ROOT, rounds=1)

    files = {name: {Path(each).name for each in way["names"]} for name, way in found.items()}
    assert {"connection.py", "join.py"} <= files["JoinGroup"]
    assert {"connection.py", "offset_commit.py", "sync.py"} <= files["OffsetCommit"]
    assert {"connection.py", "fetch.py"} <= files["Fetch"]
    assert {"connection.py", "end_txn.py", "markers.py"} <= files["EndTxn"]
    # A fetch does not concern any coordinator.
    assert not any("coordinator" in each for each in found["Fetch"]["names"])
    rows = {"small": 0, "files": 1, "lines": 1}
    shown = table(
        {
            "rooms": {"tests": rows},
            "product": rows,
            "words": 1,
            "duplicates": None,
            "assertions": {},
            "private_accesses": 1,
            "ways": found,
        }
    )
    assert any(line.startswith(f"| Fetch | {found['Fetch']['modules']} |") for line in shown)
