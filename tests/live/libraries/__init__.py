"""The client libraries behind one interface, so that a test is written once and run with each."""

from tests.live.libraries.aiokafka_library import Aiokafka
from tests.live.libraries.confluent import Confluent
from tests.live.libraries.kafka_python import KafkaPython
from tests.live.libraries.messages import Library, Message, Reader, Reading, Received, Sending

LIBRARIES: tuple[Library, ...] = (KafkaPython(), Aiokafka(), Confluent())
BY_NAME: dict[str, Library] = {library.name: library for library in LIBRARIES}
NAMES: tuple[str, ...] = tuple(BY_NAME)

__all__ = [
    "BY_NAME",
    "LIBRARIES",
    "NAMES",
    "Library",
    "Message",
    "Reader",
    "Reading",
    "Received",
    "Sending",
]
