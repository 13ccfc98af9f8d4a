"""Each API that is served: its versions, the rights it needs, where its response has the error."""

from coterie.protocol.api_keys import SERVED_VERSIONS
from coterie.protocol.resources import Touched, resources
from documentation.reference.tables import code, table

_HEAD = """# APIs

What is served, by number. Other APIs are not: ApiVersions does not list them, and a request for one
closes the connection ([framing/served-versions](../spec/framing.md#served-versions)). Produce is
announced from version 0.

What a request needs in Kafka is in the order in which its authorizer is asked; the error is where
the last column says if the first is refused, in several places for different versions. An empty
cell means that a login is enough. [Security](../spec/security.md#resources) has the exceptions.

"""


def apis_page() -> str:
    """Return the page, made from the tables of the code [security/resources]."""
    touched = resources()
    rows = []
    for api, (first, last) in SERVED_VERSIONS.items():
        needed = touched.get(api)
        rights = (needs(needed), places(needed[0])) if needed else ("", "")
        rows.append([str(api.value), api.kafka_name, f"{first} to {last}", *rights])
    return _HEAD + table(["", "API", "versions", "needs", "place of the error"], rows)


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
