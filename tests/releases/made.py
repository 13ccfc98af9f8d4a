"""Makes coterie/server/releases.tsv: which versions of each API each release of Kafka serves.

    python -m tests.releases.made            write the table
    python -m tests.releases.made --check    fail if the table differs from the jars

The source is the class ApiKeys (before 0.11: Protocol) in the kafka-clients library of the newest
patch of each release. Maven fetches the libraries, and Releases.java, which needs Java 17, reads
them. Both take a minute, so no test runs this; tests/unit/server/test_releases.py checks the shape.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "coterie" / "server" / "releases.tsv"
PATCHES = (
    *("0.10.0.1", "0.10.1.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1"),
    *("2.0.1", "2.1.1", "2.2.2", "2.3.1", "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2"),
    *("3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2", "3.7.2", "3.8.1", "3.9.1"),
    *("4.0.1", "4.1.1", "4.2.0", "4.3.1"),
)
_SLF4J = "1.7.36"
# The first release whose KRaft mode was meant for production (KIP-833).
_FIRST_KRAFT = "3.3"


def release_of(patch: str) -> str:
    """Return the release of a patch: 2.8 of 2.8.2, but 0.10.2 of 0.10.2.2 and 0.11 of 0.11.0.3."""
    parts = patch.split(".")
    return ".".join(parts[:3] if parts[:2] == ["0", "10"] else parts[:2])


def fetch(directory: Path) -> None:
    """Let Maven copy the libraries into a directory."""
    artifacts = [("org.apache.kafka", "kafka-clients", patch) for patch in PATCHES]
    artifacts.append(("org.slf4j", "slf4j-api", _SLF4J))
    items = "".join(
        f"<artifactItem><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></artifactItem>"
        for group, artifact, version in artifacts
    )
    pom = directory / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>releases</groupId><artifactId>releases</artifactId><version>1</version>"
        "<packaging>pom</packaging><build><plugins><plugin>"
        "<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId>"
        f"<configuration><outputDirectory>{directory}</outputDirectory>"
        f"<artifactItems>{items}</artifactItems></configuration>"
        "</plugin></plugins></build></project>"
    )
    line = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy"]
    subprocess.run(line, check=True, stdout=sys.stderr)


def read(directory: Path) -> str:
    """Return what Releases.java prints."""
    libraries = [f"{patch}={directory}/kafka-clients-{patch}.jar" for patch in PATCHES]
    logging = f"-Dslf4j={directory}/slf4j-api-{_SLF4J}.jar"
    line = ["java", logging, str(HERE / "Releases.java"), *libraries]
    return subprocess.run(line, check=True, stdout=subprocess.PIPE, text=True).stdout


def table(printed: str) -> str:
    """Return the table: one row for each API, one column for each release."""
    releases = [release_of(patch) for patch in PATCHES]
    kraft = releases[releases.index(_FIRST_KRAFT) :]
    names: dict[int, str] = {}
    cells: dict[tuple[int, str], str] = {}
    for line in printed.splitlines():
        patch, key, name, listeners, first, last = line.split("\t")
        release = release_of(patch)
        listener = "BROKER" if release in kraft else "ZK_BROKER"
        # An API whose versions are all unstable has -1 for the last stable one.
        if listener in listeners.strip("[]").split(", ") and int(last) >= 0:
            # Some were renamed; the newest name counts.
            names[int(key)] = name
            cells[int(key), release] = f"{first}-{last}"
    rows = [["key", "api", *releases]]
    rows += [
        [str(key), names[key], *(cells.get((key, release), "") for release in releases)]
        for key in sorted(names)
    ]
    return "".join("\t".join(row) + "\n" for row in rows)


def main() -> int:
    """Write or check the table; return the exit code."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        fetch(directory)
        made = table(read(directory))
    if "--check" not in sys.argv:
        TABLE.write_text(made)
    elif made != TABLE.read_text():
        print(f"{TABLE} differs from the jars: run python -m tests.releases.made", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
