"""The name of a certificate's owner as Kafka sees it: RFC 2253, as Java prints it.

[security/certificate-names] A library for certificates is not needed, and its text would differ:
Java shows an attribute that has no short name as the hex digits of its value.
"""

from coterie.security.der import NotDer, dotted, elements, subject_of

# The attributes that have a short name in RFC 2253. All others are shown by their numbers.
_SHORT_NAMES = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
# The tags of texts: UTF8, Printable, T61, IA5, General, BMP. Java reads each of them as UTF-8.
_TEXTS = (12, 19, 20, 22, 27, 30)
_ESCAPED = frozenset(',=+<>#;"\\')
_BLANKS = " \r"


def certificate_name(certificate: bytes) -> str:
    """Return the distinguished name of the owner of a certificate, which is in DER.

    Raises:
        NotDer: the bytes are not a certificate.
    """
    return distinguished_name(subject_of(certificate))


def distinguished_name(subject: bytes) -> str:
    """Return an encoded name as text, with its most specific part first.

    Raises:
        NotDer: the bytes are not a name.
    """
    name = next(elements(subject), None)
    if name is None:
        raise NotDer("this is not a name")
    parts = []
    for part in elements(name.content):
        attributes = []
        for attribute in elements(part.content):
            kind, *values = elements(attribute.content)
            if len(values) != 1:
                raise NotDer("an attribute of a name has one type and one value")
            attributes.append(_attribute(dotted(kind.content), *values[0]))
        parts.append("+".join(attributes))
    return ",".join(reversed(parts))


def _attribute(kind: str, tag: int, content: bytes, whole: bytes) -> str:
    short = _SHORT_NAMES.get(kind)
    if short is None or tag not in _TEXTS:
        return f"{short or kind}=#{whole.hex()}"
    return f"{short}={_escaped(content.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """Return a text in which no character separates attributes or is lost at an end."""
    inner = text.strip(_BLANKS)
    lead = len(text) - len(text.lstrip(_BLANKS))
    trail = text[lead + len(inner) :]
    escaped = "".join(f"\\{each}" if each in _ESCAPED else each for each in inner)
    blanks = ["".join(f"\\{blank}" for blank in end) for end in (text[:lead], trail)]
    return f"{blanks[0]}{escaped}{blanks[1]}".replace("\0", "\\00")
