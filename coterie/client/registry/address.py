"""Where a schema registry is, and its answers: the REST API that Confluent's registry has.

User and password of the URL are sent to its host as basic authentication, and are in no error
[registry/credentials].
"""

import base64
from typing import Any, NamedTuple, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from coterie.client.errors import ClientError
from coterie.client.http_port import SCHEMES, HttpPort

# A page of records waits for it, and other registries answer in milliseconds.
TIMEOUT_S = 5.0
# Confluent's registry takes schemas of 1 MB; JSON needs more for the same text.
_MOST_BYTES = 8 * 1024 * 1024
_ACCEPTED = "application/vnd.schemaregistry.v1+json, application/json"
_SHOWN_CHARACTERS = 200


class RegistryFailed(ClientError):  # noqa: N818 - the name says what happened
    """A registry does not answer, or does not have what it was asked for.

    Attributes:
        has_answered: whether it has answered, and only this schema cannot be had.
    """

    has_answered = False


class Reference(NamedTuple):
    """A schema that another one needs.

    Attributes:
        name: what the other one calls it: a full name of Avro, an import of Protobuf.
        subject, version: what the registry calls it.
    """

    name: str
    subject: str
    version: int


class Registered(NamedTuple):
    """A schema as a registry has it.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        text: the schema; of Protobuf what was asked for.
        references: the schemas that it needs.
    """

    kind: str
    text: str
    references: tuple[Reference, ...]


class RegistryAddress(NamedTuple):
    """Where a registry is.

    Attributes:
        shown: its URL without user and password.
        prefix: the path before that of each request.
        authorization: the header; None without a user.
    """

    shown: str
    prefix: str
    authorization: str | None

    @classmethod
    def of(cls, url: str) -> Self:
        """Return the address in a URL, such as https://user:password@registry:8081/path.

        Raises:
            ValueError: it is no URL of HTTP. The text does not show it, for it may have a password.
        """
        parts = urlsplit(url)
        try:
            # A wrong port is an error only when it is read.
            is_right = parts.scheme in SCHEMES and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_right = False
        if not is_right or parts.query or parts.fragment:
            raise ValueError("a URL such as http://127.0.0.1:8081 is wanted")
        host = parts.netloc.rpartition("@")[2]
        authorization = None
        if parts.username is not None:
            pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            authorization = f"Basic {base64.b64encode(pair.encode()).decode()}"
        prefix = parts.path.rstrip("/")
        return cls(urlunsplit((parts.scheme, host, prefix, "", "")), prefix, authorization)

    def by_id(self, schema_id: int, *, as_descriptor: bool = False) -> Registered:
        """Return the schema with an id.

        Args:
            schema_id: the id.
            as_descriptor: whether the file of Protobuf is wanted in its binary form, as base64.

        Raises:
            RegistryFailed: the registry does not answer, or has no such schema.
        """
        path = f"/schemas/ids/{schema_id}"
        return self._schema(path, f"schema {schema_id}", as_descriptor=as_descriptor)

    def by_reference(self, reference: Reference, *, as_descriptor: bool = False) -> Registered:
        """Return a schema that another one needs; see `by_id`."""
        path = f"/subjects/{quote(reference.subject, safe='')}/versions/{reference.version}"
        what = f"version {reference.version} of {reference.subject}"
        return self._schema(path, what, as_descriptor=as_descriptor)

    def _schema(self, path: str, what: str, *, as_descriptor: bool) -> Registered:
        headers = {"Accept": _ACCEPTED}
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        port = HttpPort(
            "schema registry",
            self.shown,
            TIMEOUT_S,
            "--schema-registry",
            RegistryFailed,
            _MOST_BYTES,
        )
        query = "?format=serialized" if as_descriptor else ""
        answer = port.send("GET", f"{self.prefix}{path}{query}", headers)
        if answer.is_error:
            raise _refused(answer.status, answer.body, what)
        try:
            return _registered(answer.body)
        except (KeyError, TypeError, ValueError):
            raise RegistryFailed(f"The schema registry answers {what} in another form.") from None


def _refused(status: int, body: Any, what: str) -> RegistryFailed:
    said = body.get("message") if isinstance(body, dict) else None
    text = f": {str(said)[:_SHOWN_CHARACTERS].rstrip('.')}" if said else ""
    failed = RegistryFailed(f"The schema registry answers {what} with HTTP {status}{text}.")
    failed.has_answered = True
    return failed


def _registered(body: Any) -> Registered:
    text, kind = body["schema"], body.get("schemaType", "AVRO")
    if not isinstance(text, str) or not isinstance(kind, str):
        raise TypeError
    references = tuple(
        Reference(str(each["name"]), str(each["subject"]), int(each["version"]))
        for each in body.get("references") or ()
    )
    return Registered(kind, text, references)
