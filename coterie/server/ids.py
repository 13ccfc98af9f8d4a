"""Random ids: topics, clusters, members. The only place of the server where chance comes in."""

import base64
import os

_CLEAR = ~((0xF000 << 64) | (0xC000 << 48))
_VERSION_4 = (0x4000 << 64) | (0x8000 << 48)


def _random_uuid() -> int:
    return int.from_bytes(os.urandom(16)) & _CLEAR | _VERSION_4


def new_uuid_text() -> str:
    """A version 4 UUID as Java prints it; member ids end with one."""
    digits = f"{_random_uuid():032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_topic_id() -> bytes:
    """The 16 bytes of a topic's id. Like Kafka's, its text form does not begin with a dash."""
    while True:
        topic_id = _random_uuid().to_bytes(16)
        if topic_id[0] >> 2 != 0b111110:
            return topic_id


def new_base64_id() -> str:
    """An id in Kafka's text form: 22 characters. Clusters and directories have such."""
    return base64.urlsafe_b64encode(new_topic_id()).decode().rstrip("=")
