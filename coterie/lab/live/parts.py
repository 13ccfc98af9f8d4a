"""Programs that a live run needs and that are no Python packages: jars from Maven Central.

They are for measurements only. Nothing here is shipped, and no test of `make test` needs it. The
jars of a part are fetched by Maven, once, into a directory below the user's cache; the environment
variable COTERIE_LAB_CACHE names another place.

    jars = jars_of(KAFKA_4, report=print)         # a directory of jars, fetched the first time
    java_command(jars, "kafka.Kafka", ["server.properties"], heap_mb=256)
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

_FETCH_LIMIT_S = 900
_CACHE_VARIABLE = "COTERIE_LAB_CACHE"


class Part(NamedTuple):
    """Jars that belong together.

    Attributes:
        name: the name with the release.
        artifacts: `group:artifact:version` of each, without what they depend on; for another jar
            than the main one, `:classifier` follows.
        excluded: `group:artifact` of dependencies that are not wanted.
    """

    name: str
    artifacts: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The name of its directory, another one as soon as the artifacts are others."""
        digest = hashlib.blake2b(repr(self).encode(), digest_size=3).hexdigest()
        return f"{self.name}-{digest}"


class PartMissing(Exception):  # noqa: N818 - the name says what is wrong
    """A part can't be had; the text says why, and what to do, in one sentence."""


_LOGGING = (
    "org.apache.logging.log4j:log4j-core:2.25.4",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
    "org.apache.logging.log4j:log4j-1.2-api:2.25.4",
)
CONNECT_4 = Part(
    "connect-4.3.1",
    (
        "org.apache.kafka:connect-runtime:4.3.1",
        "org.apache.kafka:connect-json:4.3.1",
        "org.apache.kafka:connect-test-plugins:4.3.1",
        *_LOGGING,
    ),
)
KAFKA_4 = Part(
    "kafka-4.3.1",
    ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-server:4.3.1", *_LOGGING),
)
KAFKA_4_TOOLS = Part(
    "kafka-with-tools-4.3.1", (*KAFKA_4.artifacts, "org.apache.kafka:kafka-tools:4.3.1")
)
STREAMS_4 = Part(
    "streams-4.3.1", ("org.apache.kafka:kafka-streams:4.3.1", "org.slf4j:slf4j-simple:1.7.36")
)


def cache_directory() -> Path:
    """Return the directory for parts; it may not exist yet."""
    chosen = os.environ.get(_CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "coterie-lab"


def jars_of(part: Part, report: Callable[[str], object] = lambda _: None) -> Path:
    """Return the directory with the jars of a part; fetch them if they are not there.

    Args:
        part: the part.
        report: called with a line before something is fetched.

    Raises:
        PartMissing: Java or Maven is missing, or the registry can't be reached.
    """
    _program("java", "the part runs on Java 17 or later")
    folder = cache_directory() / part.folder
    if folder.is_dir():
        return folder
    maven = _program("mvn", "Maven fetches the jars")
    new = folder.with_name(f"{part.folder}.new")
    report(f"Fetching {part.name} with Maven into {folder} ...")
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        pom = new / "pom.xml"
        pom.write_text(_pom(part), encoding="utf-8")
        command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        done = subprocess.run(  # noqa: S603 - Maven
            [*command, f"-DoutputDirectory={new}"],
            capture_output=True,
            text=True,
            timeout=_FETCH_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise PartMissing(
            f"Maven has not fetched {part.name} within {_FETCH_LIMIT_S} s: try again."
        ) from None
    except OSError as error:
        raise PartMissing(f"{new} can't be written: {error.strerror}.") from None
    if done.returncode:
        raise PartMissing(f"Maven can't fetch {part.name}: {_first_error(done.stdout)}")
    pom.unlink()
    new.rename(folder)
    return folder


def java_command(
    jars: Path,
    main_class: str,
    arguments: Sequence[str] = (),
    *,
    heap_mb: int = 256,
    options: Sequence[str] = (),
    classes: Sequence[Path] = (),
) -> list[str]:
    """Return the command that runs a class of a part.

    Args:
        jars: the directory of the part.
        main_class: the class.
        arguments: its arguments.
        heap_mb: the largest heap, in MiB.
        options: more options of Java.
        classes: directories of compiled classes and configuration, before the jars.
    """
    path = os.pathsep.join([*map(str, classes), f"{jars}/*"])
    java = shutil.which("java") or "java"
    return [java, f"-Xmx{heap_mb}m", *options, "-cp", path, main_class, *arguments]


def compile_java(jars: Path, sources: Sequence[Path], folder: Path) -> Path:
    """Compile Java sources against a part into a directory, and return it.

    Raises:
        PartMissing: the compiler is missing or refuses the sources.
    """
    compiler = _program("javac", "a JDK compiles the member programs")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(  # noqa: S603 - the compiler
        [compiler, "-nowarn", "-cp", f"{jars}/*", "-d", str(folder), *map(str, sources)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PartMissing(f"javac refuses {sources[0].name}: {done.stderr.strip()[:500]}")
    return folder


def _program(name: str, why: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise PartMissing(f"'{name}' is not installed: {why}.")
    return found


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return (lines or output.splitlines() or ["no message"])[0].removeprefix("[ERROR] ")[:300]


def _pom(part: Part) -> str:
    """Return a project file that depends on the artifacts of a part."""
    excluded = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in (each.split(":") for each in part.excluded)
    )
    dependencies = "\n".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version><classifier>{classifier}</classifier>"
        f"<exclusions>{excluded}</exclusions></dependency>"
        for group, artifact, version, classifier in (
            f"{each}:".split(":")[:4] for each in part.artifacts
        )
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        f"<groupId>lab</groupId><artifactId>{escape(part.name)}</artifactId><version>1</version>"
        f"<packaging>pom</packaging>\n<dependencies>\n{dependencies}\n</dependencies></project>\n"
    )
