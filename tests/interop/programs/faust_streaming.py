"""Faust, a stream processor in Python, doubles numbers exactly once, although it is killed.

It works on aiokafka's consumer and transactional producer. A transaction of Faust may hold results
of records whose offsets it does not commit yet, so that those are processed twice if it is killed
then, on Apache Kafka too. So it is killed when its offsets have caught up. A virtual environment of
its own has it, in the cache of the parts.
"""

import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from coterie.lab.live.parts import cache_directory
from coterie.processes import Child
from tests.interop.model import Failed, Skipped, Surroundings
from tests.interop.topics import CommittedReader, create_topics, produce

CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
_PACKAGE = "faust-streaming==0.15.3"
_APPLICATION = Path(__file__).parent / "_faust_app.py"
_LIMIT_S = 120.0


def run(around: Surroundings) -> None:
    """Double numbers from topic to topic; kill the application between two parts of the input."""
    python = _environment()
    source, sink = around.name("numbers"), around.name("doubled")
    create_topics(around.bootstrap, {source: 2, sink: 2})
    command = [str(python), str(_APPLICATION), around.bootstrap, around.name("faust"), source, sink]
    reader = CommittedReader(around.bootstrap, {sink: 2})
    found: Counter[int] = Counter()

    def read(until: int, child: Child) -> None:
        for message in reader.records(_LIMIT_S):
            if message is not None:
                value = message.value()
                assert isinstance(value, bytes)
                found[int(value)] += 1
            elif len(found) >= until:
                return
            elif not child.running:
                raise Failed(f"the application has ended:\n{child.last_lines()}")
        raise Failed(f"not within {_LIMIT_S:.0f} s: {until} numbers; there are {len(found)}")

    produce(around.bootstrap, source, ((str(each), str(each)) for each in range(300)))
    child = around.children.start("faust", command, directory=around.directory)
    read(300, child)
    group = Consumer({"bootstrap.servers": around.bootstrap, "group.id": around.name("faust")})
    partitions = [TopicPartition(source, each) for each in range(2)]

    def caught_up() -> bool:
        return sum(max(each.offset, 0) for each in group.committed(partitions, 30)) == 300

    around.until(caught_up, _LIMIT_S, "all offsets are committed", child)
    group.close()
    child.kill()
    produce(around.bootstrap, source, ((str(each), str(each)) for each in range(300, 600)))
    child = around.children.start("faust-again", command, directory=around.directory)
    read(600, child)
    reader.close()
    if found != Counter(range(0, 1200, 2)):
        raise Failed(f"{found.total() - len(found)} of 600 numbers were doubled")
    around.note("600 numbers, each one time")


def _environment() -> Path:
    """Return the Python of an environment with Faust; make it the first time."""
    folder = cache_directory() / _PACKAGE.replace("==", "-")
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", _PACKAGE, "setuptools"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skipped(f"pip cannot install {_PACKAGE}: {done.stderr.strip()[-200:]}")
        (folder / "ready").touch()
    assert sys.platform != "win32", "the path of the interpreter is that of other systems"
    return python
