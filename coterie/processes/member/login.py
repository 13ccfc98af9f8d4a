"""How a member logs in, by a file of client properties in the names of Kafka's own tools."""

import ssl
from typing import Any

from coterie.security.jaas import parse_jaas
from coterie.storage.properties import read_properties

_PROTOCOL, _MECHANISM, _JAAS = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
_AUTHORITY = "ssl.truststore.location"


class Login:
    """What the properties say.

    Attributes:
        protocol, mechanism: as Kafka calls them.
        user, password: of the login; "" without one.
        authority: a PEM file with whom to trust; "" for the system's.
    """

    def __init__(self, path: str) -> None:
        """Read a file."""
        with open(path, encoding="utf-8") as file:
            properties = read_properties(file.read())
        self.protocol = properties.get(_PROTOCOL, "PLAINTEXT")
        self.mechanism = properties.get(_MECHANISM, "")
        self.authority = properties.get(_AUTHORITY, "")
        options = parse_jaas(properties[_JAAS]).options if _JAAS in properties else {}
        self.user, self.password = options.get("username", ""), options.get("password", "")

    def of_python(self) -> dict[str, Any]:
        """Return the settings of kafka-python and aiokafka."""
        settings: dict[str, Any] = {
            "security_protocol": self.protocol,
            "sasl_mechanism": self.mechanism or None,
            "sasl_plain_username": self.user,
            "sasl_plain_password": self.password,
        }
        if self.protocol.endswith("SSL"):
            settings["ssl_context"] = ssl.create_default_context(cafile=self.authority or None)
        return settings

    def of_librdkafka(self) -> dict[str, Any]:
        """Return the settings of confluent-kafka."""
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": self.mechanism or None,
            "sasl.username": self.user or None,
            "sasl.password": self.password or None,
            "ssl.ca.location": self.authority or None,
        }
