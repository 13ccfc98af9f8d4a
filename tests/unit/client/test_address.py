"""The one reader and writer of broker addresses."""

import pytest

from coterie.address import Address, peer_address

DEFAULT_PORT = 9092


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9093", Address("localhost", 9093)),
        ("broker.example:19092", Address("broker.example", 19092)),
        ("[::1]:9094", Address("::1", 9094)),
        (" 10.0.0.1:1 ", Address("10.0.0.1", 1)),
    ],
)
def test_host_and_port_are_read(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(text, DEFAULT_PORT) == address


@pytest.mark.parametrize(
    ("text", "host"), [("kafka", "kafka"), ("::1", "::1"), ("[::1]", "::1"), (" kafka ", "kafka")]
)
def test_a_missing_port_is_the_default_port(text: str, host: str) -> None:
    assert Address.parse(text, DEFAULT_PORT) == Address(host, DEFAULT_PORT)
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        Address.parse(text)


@pytest.mark.parametrize(
    "text", ["", ":9092", "host:", "host:port", "host:0", "host:65536", "h:-1", "h:\u0663"]
)
def test_invalid_addresses_are_refused(text: str) -> None:
    for default_port in (None, DEFAULT_PORT):
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            Address.parse(text, default_port)


@pytest.mark.parametrize("address", [Address("::1", 9094), Address("localhost", 1)])
def test_a_written_address_can_be_read(address: Address) -> None:
    assert Address.parse(str(address)) == address


def test_a_list_of_addresses_is_read() -> None:
    found = Address.parse_list("one:1, two ,", DEFAULT_PORT)
    assert found == [Address("one", 1), Address("two", DEFAULT_PORT)]
    for text in ("", " , "):
        with pytest.raises(ValueError, match="no address is given"):
            Address.parse_list(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        ("0:0::1", "::1"),
        ("FE80::A", "fe80::a"),
        ("example.org", None),
        ("127.1", None),
        ("127.0.0.01", None),
        ("", None),
        ("::1\0", None),
        ("\udc80", None),
    ],
)
def test_peers_have_an_address_in_its_shortest_form(text: str, address: str | None) -> None:
    assert peer_address(text) == address
