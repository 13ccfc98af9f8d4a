"""DER, the encoding of certificates, as far as their names need it.

OpenSSL has checked a certificate before it gets here, so this only finds its way through the bytes.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

SEQUENCE = 0x30
_LONG_LENGTH = 0x80
# An explicit tag [0] of a certificate: its version, which those of version 1 lack.
_VERSION = 0xA0
# Where its validity is, and the tag of one of the two forms of a time.
_VALIDITY = 3
_UTC_TIME = 0x17
# The explicit tag [3] of its extensions, and the identifier of one of them.
_EXTENSIONS = 0xA3
_ALTERNATIVE_NAMES = bytes.fromhex("551d11")
# What precedes the subject: serial number, algorithm, issuer, validity.
_BEFORE_SUBJECT = 4


class NotDer(ValueError):  # noqa: N818 - the bytes are not what they should be
    """Bytes end too early, or have another shape."""


class Element(NamedTuple):
    """One element of an encoding.

    Attributes:
        tag: its type.
        content: its content, which for a constructed type are elements.
        whole: tag, length and content.
    """

    tag: int
    content: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow each other in some bytes.

    Raises:
        NotDer: they end too early.
    """
    position = 0
    while position < len(data):
        if position + 2 > len(data):
            raise NotDer("an element has no length")
        length, start = data[position + 1], position + 2
        if length & _LONG_LENGTH:
            size = length & ~_LONG_LENGTH
            length, start = int.from_bytes(data[start : start + size]), start + size
        end = start + length
        if end > len(data):
            raise NotDer(f"an element claims {length} bytes where {len(data) - start} are left")
        yield Element(data[position], data[start:end], data[position:end])
        position = end


def subject_of(certificate: bytes) -> bytes:
    """Return the name of the owner of a certificate, encoded.

    Raises:
        NotDer: the bytes are not a certificate.
    """
    parts = [each for each in _signed(certificate) if each.tag != _VERSION]
    if len(parts) <= _BEFORE_SUBJECT:
        raise NotDer("a certificate has no subject")
    return parts[_BEFORE_SUBJECT].whole


def expires_s(certificate: bytes) -> int:
    """Return when a certificate expires, in seconds since 1970.

    Raises:
        NotDer: the bytes are not a certificate.
    """
    parts = [each for each in _signed(certificate) if each.tag != _VERSION]
    _, end = elements(parts[_VALIDITY].content)
    digits = end.content.decode("ascii", "replace")
    if end.tag == _UTC_TIME:
        # Two digits of the year: those from 50 on are of the last century.
        digits = ("19" if digits[0] >= "5" else "20") + digits
    try:
        end_of_validity = datetime.strptime(f"{digits}+0000", "%Y%m%d%H%M%SZ%z")
        return int(end_of_validity.timestamp())
    except ValueError:
        raise NotDer(f"{digits!r} is not the time of a certificate") from None


def alternative_names(certificate: bytes) -> frozenset[bytes]:
    """Return the further names that a certificate is for, each encoded; perhaps none.

    Raises:
        NotDer: the bytes are not a certificate.
    """
    for part in _signed(certificate):
        if part.tag == _EXTENSIONS:
            for extension in elements(next(elements(part.content)).content):
                kind, *_, value = elements(extension.content)
                if kind.content == _ALTERNATIVE_NAMES:
                    names = next(elements(value.content))
                    return frozenset(each.whole for each in elements(names.content))
    return frozenset()


def _signed(certificate: bytes) -> Iterator[Element]:
    """Return the elements of a certificate that its issuer has signed."""
    for _ in range(2):
        # The certificate, and in it what is signed.
        first = next(elements(certificate), None)
        if first is None or first.tag != SEQUENCE:
            raise NotDer("this is not a certificate")
        certificate = first.content
    return elements(certificate)


def dotted(identifier: bytes) -> str:
    """Return an object identifier with dots: 1.2.840.113549.1.9.1."""
    numbers, number = list[int](), 0
    for byte in identifier:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2) if numbers else 0
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]] if numbers else []))
