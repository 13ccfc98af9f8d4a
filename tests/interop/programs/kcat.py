"""kcat lists, produces and reads, looks up offsets, joins a group, and commits a transaction."""

import os
import shutil
import subprocess
from pathlib import Path

from coterie.lab.live.parts import cache_directory
from tests.interop.model import Failed, Skipped, Surroundings
from tests.interop.topics import create_topics

# kcat and the libraries that it needs, as Debian names them.
_PACKAGES = ("kcat", "librdkafka1", "libyajl2")
_LIMIT_S = 60.0


def run(around: Surroundings) -> None:
    """Run kcat once for each thing that it can do."""
    program, environment = _program()
    topic = around.name("kcat")
    create_topics(around.bootstrap, {topic: 1})

    def kcat(*arguments: str, text: str = "") -> str:
        done = subprocess.run(
            [program, "-b", around.bootstrap, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
            env={**os.environ, **environment},
        )
        if done.returncode:
            raise Failed(f"kcat {' '.join(arguments)}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def expect(what: str, found: str, wanted: str) -> None:
        if found != wanted:
            raise Failed(f"{what}: {found!r} instead of {wanted!r}")

    if f'topic "{topic}" with 1 partitions' not in kcat("-L"):
        raise Failed("the topic is not listed")
    kcat("-P", "-t", topic, "-K:", "-H", "origin=kcat", "-z", "lz4", text="a:1\nb:2\n")
    read = kcat("-C", "-t", topic, "-e", "-q", "-f", "%o %k %s %h\n")
    expect("records", read, "0 a 1 origin=kcat\n1 b 2 origin=kcat\n")
    expect("the newest offset", kcat("-Q", "-t", f"{topic}:0:-1"), f"{topic} [0] offset 2\n")
    transactional = ("-X", f"transactional.id={around.name('kcat')}")
    kcat("-P", "-t", topic, "-K:", *transactional, text="c:3\n")
    read = kcat(
        "-C", "-t", topic, "-e", "-q", "-X", "isolation.level=read_committed", "-f", "%k%s "
    )
    expect("committed records", read, "a1 b2 c3 ")
    # The marker of the transaction has an offset, too.
    expect("the end", kcat("-Q", "-t", f"{topic}:0:-1"), f"{topic} [0] offset 4\n")
    group = ("-X", "auto.offset.reset=earliest", "-f", "%k%s ")
    expect("a group", kcat("-G", around.name("group"), "-e", "-q", *group, topic), "a1 b2 c3 ")
    expect("a group again", kcat("-G", around.name("group"), "-e", "-q", *group, topic), "")


def _program() -> tuple[str, dict[str, str]]:
    """Return kcat and the variables that it needs; fetch it from Debian if it is not installed."""
    installed = shutil.which("kcat") or shutil.which("kafkacat")
    if installed:
        return installed, {}
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        raise Skipped("kcat is not installed, and there is no apt-get to fetch it")
    folder = cache_directory() / "kcat"
    root = folder / "root"
    if not root.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            _call(["apt-get", "download", *_PACKAGES], folder)
            for package in folder.glob("*.deb"):
                _call(["dpkg", "-x", str(package), str(root)], folder)
        except subprocess.CalledProcessError as error:
            raise Skipped(f"apt-get cannot fetch kcat: {error.stderr.strip()[-200:]}") from None
    libraries = sorted({str(each.parent) for each in root.rglob("*.so.*")})
    return str(root / "usr" / "bin" / "kcat"), {"LD_LIBRARY_PATH": os.pathsep.join(libraries)}


def _call(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
