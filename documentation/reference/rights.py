"""What each API needs: resources, operations, and where its response has the error."""

from coterie.protocol.resources import Touched, resources
from documentation.reference.tables import code, table

_HEAD = """# What requests need

What each API needs in Kafka, in the order in which its authorizer is asked, and where the error is
if the first is refused; several places belong to different versions. APIs that are not here need
only a login. [Security](../spec/security.md#resources) has the exceptions.

"""


def rights_page() -> str:
    """Return the page, made from the table of the code [security/resources]."""
    rows = (
        [api.kafka_name, needs(touched), places(touched[0])] for api, touched in resources().items()
    )
    return _HEAD + table(["API", "needs", "place of the error"], rows)


def needs(touched: tuple[Touched, ...]) -> str:
    """Return the resources and operations of an API, first those that are asked for first."""
    return ", ".join(
        f"{each.type.name.lower().replace('_', ' ')} {each.operation.name}"
        for each in touched
        if each.operation is not None
    )


def places(touched: Touched) -> str:
    """Return where responses have the error of a resource: lists, or the response itself."""
    return " or ".join(code(".".join(place)) or "response" for place in touched.places)
