"""Our Java programs, which use Kafka's own client."""

from pathlib import Path

from coterie.lab.live.parts import KAFKA_4_TOOLS, compile_java, jars_of, java_command
from coterie.processes import Child
from tests.interop.model import Surroundings

SOURCES = Path(__file__).parent / "java"
OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def start_java(around: Surroundings, name: str, *arguments: str) -> Child:
    """Compile and start the program of a file in `java/`."""
    jars = jars_of(KAFKA_4_TOOLS, around.note)
    classes = compile_java(jars, [SOURCES / f"{name}.java"], around.directory / f"classes-{name}")
    command = java_command(jars, name, arguments, heap_mb=384, options=OPTIONS, classes=[classes])
    return around.children.start(f"{name}-{len(around.children.all)}", command)
