"""Checksums inside small text files, in places that Kafka ignores [recovery/sealed-files].

Kafka's checkpoints and properties files have none. Ours have one in the same file, so that no crash
can leave a file and a checksum that do not belong together, and so that a file that Kafka has
written since is recognized: it has no checksum, and is accepted.

 * A checkpoint ends with 32 blanks and tabs in its last line, the bits of the checksum. Kafka
   separates the fields of an entry by any white space.
 * A properties file begins with a comment.
 * `partition.metadata` has a third line; Kafka reads two.
 * `coterie-settings.json` has a field.
"""

import re

from coterie.protocol import checksum
from coterie.storage.errors import CorruptLog

_BLANKS = " \t"
_FIRST_LINE = re.compile(r"#coterie crc32c=([0-9a-f]{8})\n")
_LAST_LINE = re.compile(r"\ncrc32c: ([0-9a-f]{8})\n\Z")
_WRONG = "its contents do not match their checksum"


def _digest(path: str, text: str) -> int:
    # With the name, so that two files cannot be exchanged.
    _, _, name = path.rpartition("/")
    return checksum.crc32c(f"{name}\n{text}".encode())


def _bits(path: str, text: str) -> str:
    return f"{_digest(path, text):032b}".translate(str.maketrans("01", _BLANKS))


def seal_entries(path: str, text: str) -> str:
    """Return the text of a checkpoint with its checksum at the end of the last entry.

    Args:
        path: the file; its name is included in the checksum.
        text: its contents.
    """
    assert text.endswith("\n"), "the last line is complete"
    assert text[-2:-1] not in (" ", "\t"), "an entry does not end with a blank"
    return f"{text[:-1]}{_bits(path, text)}\n"


def open_entries(path: str, text: str) -> tuple[str, bool]:
    """Return the text of a checkpoint without the checksum, and whether it has one.

    Args:
        path: the file, for errors.
        text: its contents.

    Raises:
        CorruptLog: the checksum is wrong, or the last line is not complete.
    """
    if not text.endswith("\n"):
        raise CorruptLog(path, len(text), "its last line is not complete")
    plain = text[:-1].rstrip(_BLANKS) + "\n"
    bits = text[len(plain) - 1 : -1]
    if bits and bits != _bits(path, plain):
        raise CorruptLog(path, len(plain), _WRONG)
    return plain, bool(bits)


def seal_properties(path: str, text: str) -> str:
    """Return the text of a properties file with its checksum in a comment before it.

    Args:
        path: the file; its name is included in the checksum.
        text: its contents.
    """
    assert not _FIRST_LINE.match(text), "a file has one checksum"
    return f"#coterie crc32c={_digest(path, text):08x}\n{text}"


def check_properties(path: str, text: str) -> bool:
    """Check the checksum of a properties file; return whether it has one.

    Args:
        path: the file, for errors.
        text: its contents.

    Raises:
        CorruptLog: the checksum is wrong.
    """
    match = _FIRST_LINE.match(text)
    if match is None:
        return False
    if _digest(path, text[match.end() :]) != int(match[1], 16):
        raise CorruptLog(path, 0, _WRONG)
    return True


def seal_lines(path: str, text: str) -> str:
    """Return the text of `partition.metadata` with its checksum in a line of its own.

    The text has no line feed at its end, as Kafka's has none.

    Args:
        path: the file; its name is included in the checksum.
        text: its contents.
    """
    assert not text.endswith("\n"), "the line of the checksum follows without an empty one"
    return f"{text}\ncrc32c: {_digest(path, text):08x}\n"


def open_lines(path: str, text: str) -> str:
    """Return the text of `partition.metadata` without the checksum, if it has one.

    Raises:
        CorruptLog: the checksum is wrong, or incomplete.
    """
    match = _LAST_LINE.search(text)
    if match is None:
        if text.rstrip("\n").count("\n") > 1:
            raise CorruptLog(path, len(text), "its checksum is not complete")
        return text
    plain = text[: match.start()]
    if _digest(path, plain) != int(match[1], 16):
        raise CorruptLog(path, match.start(), _WRONG)
    return plain
