"""The names of certificates, as Java prints them [security/certificate-names]."""

import pytest

from coterie.security.der import NotDer, expires_s, subject_of
from coterie.security.distinguished_name import certificate_name, distinguished_name

_UTF8, _PRINTABLE, _IA5, _BIT_STRING = 12, 19, 22, 3
_OIDS = {
    "CN": "0603550403",
    "OU": "060355040b",
    "O": "060355040a",
    "C": "0603550406",
    "DC": "060a0992268993f22c640119",
    "e-mail": "06092a864886f70d010901",
}


def element(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content


def attribute(kind: str, text: str, tag: int = _UTF8) -> bytes:
    return element(0x30, bytes.fromhex(_OIDS[kind]) + element(tag, text.encode()))


def name(*parts: bytes) -> bytes:
    return element(0x30, b"".join(element(0x31, part) for part in parts))


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (
            name(
                attribute("C", "DE", _PRINTABLE),
                attribute("O", "Acme, Inc."),
                attribute("OU", "Test Unit"),
                attribute("CN", "alice"),
            ),
            r"CN=alice,OU=Test Unit,O=Acme\, Inc.,C=DE",
        ),
        (name(attribute("e-mail", "a@b.c", _IA5)), "1.2.840.113549.1.9.1=#16056140622e63"),
        (name(attribute("CN", "a") + attribute("OU", "b")), "CN=a+OU=b"),
        (name(attribute("DC", "org", _IA5), attribute("CN", "ü")), "CN=ü,DC=org"),
        (name(attribute("CN", "x", _BIT_STRING)), "CN=#030178"),
        (name(attribute("CN", '#a+"b\\<c>;=')), 'CN=\\#a\\+\\"b\\\\\\<c\\>\\;\\='),
        (name(attribute("CN", "  a b ")), r"CN=\ \ a b\ "),
        (name(attribute("CN", " ")), r"CN=\ "),
        # A name with NUL is not the one in front of it.
        (name(attribute("CN", "admin\0.example")), r"CN=admin\00.example"),
        (name(), ""),
    ],
)
def test_the_text_is_that_of_java(subject: bytes, text: str) -> None:
    """Compared with X500Principal.getName of Java 17 for 20,000 drawn names, too."""
    assert distinguished_name(subject) == text


def test_the_subject_is_found_in_a_certificate() -> None:
    subject = name(attribute("CN", "n" * 300))
    fields = b"".join(element(tag, b"x") for tag in (0xA0, 2, 0x30, 0x30, 0x30))
    certificate = element(0x30, element(0x30, fields + subject + element(0x30, b"key")))
    assert subject_of(certificate) == subject
    assert certificate_name(certificate) == f"CN={'n' * 300}"


@pytest.mark.parametrize(
    ("tag", "text", "seconds"),
    [
        (23, "700101000001Z", 1),
        (23, "491231235959Z", 2_524_607_999),
        (23, "500101000000Z", -631_152_000),
        (24, "20500101000000Z", 2_524_608_000),
    ],
)
def test_the_end_of_a_certificate(tag: int, text: str, seconds: int) -> None:
    """Years of two digits are those from 1950 to 2049 (RFC 5280)."""
    times = element(23, b"000101000000Z") + element(tag, text.encode())
    fields = element(0xA0, b"x") + element(2, b"x") + element(0x30, b"") * 2 + element(0x30, times)
    assert expires_s(element(0x30, element(0x30, fields))) == seconds


def test_a_time_that_is_none_is_refused() -> None:
    times = element(0x30, element(23, b"x") + element(23, b"yesterday"))
    fields = element(2, b"x") + element(0x30, b"") * 2 + times
    with pytest.raises(NotDer):
        expires_s(element(0x30, element(0x30, fields)))


@pytest.mark.parametrize("data", [b"", b"\x30", b"\x30\x05a", b"\x04\x01a", b"\x30\x02\x30\x00"])
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(NotDer):
        certificate_name(data)


@pytest.mark.parametrize("data", [b"", b"\x30\x07\x31\x05\x30\x03\x06\x01\x01"])
def test_what_is_no_name_is_refused(data: bytes) -> None:
    with pytest.raises(NotDer):
        distinguished_name(data)
