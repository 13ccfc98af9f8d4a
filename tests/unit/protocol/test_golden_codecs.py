"""The source that the compiler generates for a few messages equals the files in
tests/golden/codecs.

So a change of the compiler is reviewed as the code that it generates. `pytest --rewrite` updates
the files.
"""

from pathlib import Path

import pytest

from coterie.protocol.compile import source_of
from coterie.protocol.messages.fetch import FetchResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.wire import Message

_GOLDEN = Path(__file__).parents[2] / "golden" / "codecs"

_CODECS = [
    (HeartbeatRequest, 4, "decode"),
    (HeartbeatResponse, 4, "frame"),
    (JoinGroupRequest, 7, "decode"),
    (JoinGroupResponse, 7, "frame"),
    (OffsetCommitRequest, 2, "decode"),
    (FetchResponse, 12, "encode"),
    (FetchResponse, 12, "decode"),
]


@pytest.mark.parametrize(
    ("cls", "version", "direction"),
    _CODECS,
    ids=[f"{cls.__name__}-v{version}-{direction}" for cls, version, direction in _CODECS],
)
def test_the_generated_source_is_unchanged(
    cls: type[Message], version: int, direction: str, rewrite: bool
) -> None:
    source, _ = source_of(cls, direction, version)
    path = _GOLDEN / f"{cls.__name__}_v{version}_{direction}.py.txt"
    if rewrite:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    assert source == path.read_text(), "run pytest --rewrite and read the diff"


def test_every_golden_file_belongs_to_a_codec() -> None:
    names = {f"{cls.__name__}_v{version}_{direction}.py.txt" for cls, version, direction in _CODECS}
    assert {path.name for path in _GOLDEN.iterdir()} == names
