"""Compare everything about settings with a running Kafka, field by field.

    python -m tests.compared.configs 127.0.0.1:19092

starts a broker of its own, sends the requests of `config_cases.py` to both, and prints what
differs. The exit code is 1 if anything does that is not listed there as known. Use a fresh Kafka
4.3.1 with node id 1: the cases alter its settings.
"""

import socket
import sys
import time
from typing import Any

from coterie.address import Address
from coterie.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
)
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.compared.config_cases import (
    KNOWN,
    Alter,
    Case,
    Create,
    Describe,
    ListResources,
    Replace,
    cases,
)
from tests.unit.server.running import RunningBroker, SocketClient

_TRIES = 5
_PAUSE_S = 0.05


def answer(client: SocketClient, case: Case) -> Any:
    """Send the request of a case; return the answer as plain values that compare."""
    if isinstance(case, Describe):
        return _describe(client, case)
    if isinstance(case, ListResources):
        request = ListConfigResourcesRequest(resource_types=list(case.types))
        response = client.call(request, case.version)
        listed = {(each.resource_type, each.resource_name) for each in response.config_resources}
        # What others have made is not of interest.
        return response.error_code, sorted(each for each in listed if each[1] in case.named)
    if isinstance(case, Create):
        return _create(client, case)
    if isinstance(case, Replace):
        response = client.call(_replacement(case), 2)
    else:
        response = client.call(_alteration(case), 1)
    return [
        (each.resource_type, each.resource_name, each.error_code, each.error_message)
        for each in response.responses
    ]


def _describe(client: SocketClient, case: Describe) -> Any:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequestResource(
                resource_type=kind, resource_name=name, configuration_keys=keys
            )
            for kind, name, keys in case.resources
        ],
        include_synonyms=case.synonyms,
        include_documentation=case.documentation,
    )
    response = client.call(request, case.version)
    return [
        (
            each.resource_type,
            each.resource_name,
            each.error_code,
            each.error_message,
            {config.name: _config(config) for config in each.configs},
        )
        for each in response.results
    ]


def _config(config: Any) -> Any:
    synonyms = [(each.name, each.value, each.source) for each in config.synonyms]
    has_text = config.documentation if not config.documentation else "text"
    return {
        "value": config.value,
        "read_only": config.read_only,
        "source": config.config_source,
        "sensitive": config.is_sensitive,
        "type": config.config_type,
        "synonyms": synonyms,
        "documentation": has_text,
    }


def _alteration(case: Alter) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestConfig(name=a, config_operation=b, value=c)
                    for a, b, c in changes
                ],
            )
            for kind, name, changes in case.resources
        ],
        validate_only=case.only,
    )


def _replacement(case: Replace) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            AlterConfigsRequestResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterConfigsRequestConfig(name=a, value=b) for a, b in values],
            )
            for kind, name, values in case.resources
        ],
        validate_only=case.only,
    )


def _create(client: SocketClient, case: Create) -> Any:
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(
                name=case.name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreateTopicsRequestConfig(name=a, value=b) for a, b in case.configs],
            )
        ],
        timeout_ms=10_000,
        validate_only=case.only,
    )
    (result,) = client.call(request, 7).topics
    configs = None
    if result.configs is not None:
        configs = {
            each.name: (each.value, each.read_only, each.config_source, each.is_sensitive)
            for each in result.configs
        }
    return result.error_code, result.error_message, configs


def differences(theirs: Any, ours: Any, where: str = "") -> list[str]:
    """Return the paths at which two answers differ, with both values."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return [
            found
            for name in sorted(theirs.keys() | ours.keys())
            for found in differences(
                theirs.get(name, "(absent)"), ours.get(name, "(absent)"), f"{where}/{name}"
            )
        ]
    same_shape = (
        isinstance(theirs, list | tuple)
        and isinstance(ours, list | tuple)
        and len(theirs) == len(ours)
    )
    if same_shape:
        pairs = zip(theirs, ours, strict=True)
        return [
            found
            for at, (left, right) in enumerate(pairs)
            for found in differences(left, right, f"{where}/{at}")
        ]
    return [] if theirs == ours else [f"{where}: Kafka {theirs!r}, Coterie {ours!r}"]


def _differences(kafka: SocketClient, coterie: SocketClient, case: Case) -> list[str]:
    """Send a request to both; return what differs."""
    ours, found = answer(coterie, case), [""]
    for _ in range(_TRIES):
        found = differences(answer(kafka, case), ours)
        if not found or not isinstance(case, Describe | ListResources):
            break
        # Kafka may answer before it knows of the last change.
        time.sleep(_PAUSE_S)
    return found


def compare(kafka: SocketClient, coterie: SocketClient) -> int:
    """Run all cases; print and count the unknown differences."""
    unknown = known = count = 0
    for case in cases():
        count += 1
        for difference in _differences(kafka, coterie, case):
            if any(pattern.search(difference) for pattern in KNOWN):
                known += 1
            else:
                unknown += 1
                print(f"{case}\n    {difference}")
    print(f"{count} cases, {known} known differences, {unknown} unknown ones")
    return unknown


def main() -> None:
    """Compare with the Kafka that the first argument names."""
    kafka = Address.parse(sys.argv[1])
    with (
        RunningBroker() as broker,
        broker.client() as ours,
        SocketClient(socket.create_connection(kafka, timeout=20)) as theirs,
    ):
        sys.exit(1 if compare(theirs, ours) else 0)


if __name__ == "__main__":
    main()
