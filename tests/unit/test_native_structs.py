"""Functions of packed numbers are written out in the compiled form."""

import random
from struct import Struct
from typing import Any

import pytest

from compilation.numbers import with_native_structs

_SOURCE = '''"""A module."""

from struct import Struct

{name} = Struct("{layout}").{method}
'''


def test_a_written_out_reader_reads_the_same_numbers() -> None:
    pytest.importorskip("librt", reason="comes with mypy, which EXTRAS=test leaves out")
    layout = ">qiIhH"
    names: dict[str, Any] = {}
    source = _SOURCE.format(name="read", layout=layout, method="unpack_from")
    exec(with_native_structs(source), names)
    numbers = random.Random(1)
    for _ in range(100):
        data = numbers.randbytes(23)
        assert names["read"](data, 3) == Struct(layout).unpack_from(data, 3)


def test_a_written_out_writer_returns_the_same_bytes() -> None:
    pytest.importorskip("librt", reason="comes with mypy, which EXTRAS=test leaves out")
    layout = ">qiIhb"
    names: dict[str, Any] = {}
    source = _SOURCE.format(name="write", layout=layout, method="pack")
    exec(with_native_structs(source), names)
    numbers = random.Random(1)
    for _ in range(100):
        packed = numbers.randbytes(19)
        assert names["write"](*Struct(layout).unpack(packed)) == packed


def test_other_layouts_and_methods_stay() -> None:
    for layout, method in (("<i", "unpack_from"), (">i3s", "pack"), (">i", "pack_into")):
        source = _SOURCE.format(name="call", layout=layout, method=method)
        assert with_native_structs(source) == source
