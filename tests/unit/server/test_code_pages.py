"""Code of the start is unmapped; it runs afterwards as before."""

import subprocess
import sys

import pytest

from coterie.server.code_pages import code_regions

MAPS = """\
55d0c9a00000-55d0c9a01000 r--p 00000000 fe:00 1201   /usr/bin/python3.11
55d0c9a01000-55d0c9a03000 r-xp 00001000 fe:00 1201   /usr/bin/python3.11
7f0000000000-7f0000004000 rw-p 00000000 00:00 0 
7f0000010000-7f0000014000 r-xp 00000000 00:00 0 
7f0000020000-7f0000030000 r-xp 00010000 fe:00 77     /opt/with space/coterie__mypyc.so
7f0000030000-7f0000031000 r--p 00020000 fe:00 77     /opt/with space/coterie__mypyc.so
7f0000031000-7f0000032000 rwxp 00021000 fe:00 77     /opt/with space/coterie__mypyc.so
7f0000040000-7f0000041000 r--s 00000000 fe:00 78     /opt/coterie/modules.bin
7fff00000000-7fff00002000 r-xp 00000000 00:00 0      [vdso]
"""  # noqa: W291 - as the kernel writes it


def test_only_code_of_files_that_nobody_writes_to_is_found() -> None:
    assert list(code_regions(MAPS)) == [
        (0x55D0C9A01000, 0x2000),
        (0x7F0000020000, 0x10000),
        (0x7F0000040000, 0x1000),
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc/self/maps")
def test_less_is_resident_afterwards_and_everything_runs() -> None:
    program = """
import json, ssl, sqlite3
from coterie.server.code_pages import unmap_code_of_the_start
from coterie.server.operating_system import resident_bytes

before = resident_bytes()
unmapped = unmap_code_of_the_start()
after = resident_bytes()
assert json.loads("[1]") == [1]
assert sqlite3.connect(":memory:").execute("select 2").fetchone() == (2,)
print(unmapped, before - after)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    unmapped, less = map(int, done.stdout.split())
    assert unmapped > 1 << 20
    assert less > 1 << 20
