"""ApiVersions: the served APIs and versions; often the first request of a connection (KIP-35)."""

import re

from coterie.protocol.api_keys import ADVERTISED_MINIMUM, SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_SOFTWARE_SINCE = 3
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)

_SERVED = [
    ApiVersionsResponseApiKey(
        api_key=api, min_version=ADVERTISED_MINIMUM.get(api, first), max_version=last
    )
    for api, (first, last) in SERVED_VERSIONS.items()
]


def handle(
    _broker: Services, request: ApiVersionsRequest, connection: Exchange
) -> ApiVersionsResponse:
    """Return the served versions, unless the client's software is invalid.

    [framing/client-software]
    """
    if connection.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name)
        and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
    if connection.version >= _SOFTWARE_SINCE:
        connection.client = connection.client._replace(
            software_name=request.client_software_name,
            software_version=request.client_software_version,
        )
    # Without features: they describe KRaft's metadata and transactions, which do not exist here.
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE, api_keys=_SERVED, finalized_features_epoch=0
    )


def handle_unsupported(
    _broker: Services, _request: object, _connection: Exchange
) -> ApiVersionsResponse:
    """Answer a version of ApiVersions that is newer than this broker.

    [framing/api-versions-fallback]
    """
    own = [each for each in _SERVED if each.api_key == ApiKey.API_VERSIONS]
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
