"""The option of commands that show records: the schema registry whose schemas they name."""

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from coterie.client.registry.address import RegistryAddress
    from coterie.client.registry.decoding import Registry

# Other users of a machine see the arguments of a command, and a URL may have a password.
VARIABLE = "COTERIE_SCHEMA_REGISTRY"


def _address(_: click.Context, __: click.Parameter, url: str | None) -> "RegistryAddress | None":
    if url is None:
        return None
    # Imported here, because most commands have no registry.
    from coterie.client.registry.address import RegistryAddress

    try:
        return RegistryAddress.of(url)
    except ValueError as error:
        # click shows no value of an option, and this text has none.
        raise click.BadParameter(f"{error}.") from None


def registry_at(address: "RegistryAddress | None") -> "Registry | None":
    """Return what decodes records by a registry; None if there is none."""
    if address is None:
        return None
    from coterie.client.registry.decoding import Registry

    return Registry(address)


def registry_option(function: Any) -> Any:
    """Add the option to a command, as `schema_registry`; the environment may have it."""
    option = click.option(
        "--schema-registry",
        envvar=VARIABLE,
        callback=_address,
        metavar="URL",
        help="Schema registry of keys and values in Avro, JSON Schema or Protobuf, such as"
        f" http://USER:PASSWORD@127.0.0.1:8081.  [env: {VARIABLE}]",
    )
    return option(function)
