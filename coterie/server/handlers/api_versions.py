"""ApiVersions: the served APIs and versions; often the first request of a connection (KIP-35)."""

import re
from collections.abc import Mapping

from coterie.protocol.api_keys import ADVERTISED_MINIMUM, SERVED_VERSIONS, TELEMETRY_APIS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ApiVersionsResponseApiKey,
    ApiVersionsResponseFinalizedFeature,
    ApiVersionsResponseSupportedFeature,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_SOFTWARE_SINCE = 3
# Clients that use an older version fail on a feature whose lowest level is 0 (KAFKA-17011).
_ZERO_SINCE = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?", re.ASCII)

# The release that introduced features (KIP-584), and the one whose answer to an unknown version
# names the known ones (KIP-511).
_FEATURES_SINCE = (2, 7)
_RANGE_SINCE = (2, 4)


def _announced(
    versions: Mapping[ApiKey, tuple[int, int]], *, telemetry: bool = False
) -> list[ApiVersionsResponseApiKey]:
    return [
        ApiVersionsResponseApiKey(
            api_key=api, min_version=ADVERTISED_MINIMUM.get(api, first), max_version=last
        )
        for api, (first, last) in versions.items()
        if telemetry or api not in TELEMETRY_APIS
    ]


_SERVED = _announced(SERVED_VERSIONS)


def handle(
    broker: Services, request: ApiVersionsRequest, connection: Exchange
) -> ApiVersionsResponse:
    """Return the served versions and the features, unless the client's software is invalid.

    [framing/client-software], [features/levels]
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
    release = broker.release
    if broker.telemetry.is_announced or release is not None:
        versions = SERVED_VERSIONS if release is None else release.versions
        served = _announced(versions, telemetry=broker.telemetry.is_announced)
    else:
        served = _SERVED
    has_features = release is None or release.number >= _FEATURES_SINCE
    features = broker.features
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE,
        api_keys=served,
        supported_features=[
            ApiVersionsResponseSupportedFeature(name=name, min_version=first, max_version=last)
            for name, (first, last) in features.supported.items()
            if first or connection.version >= _ZERO_SINCE
        ],
        finalized_features_epoch=features.epoch if has_features else -1,
        finalized_features=[
            ApiVersionsResponseFinalizedFeature(
                name=name, max_version_level=level, min_version_level=level
            )
            for name, level in features.finalized.items()
        ],
    )


def handle_unsupported(
    broker: Services, _request: object, _connection: Exchange
) -> ApiVersionsResponse:
    """Answer a version of ApiVersions that is newer than this broker.

    [framing/served-versions]
    """
    release = broker.release
    served = SERVED_VERSIONS if release is None else release.versions
    own = _announced({ApiKey.API_VERSIONS: served[ApiKey.API_VERSIONS]})
    if release is not None and release.number < _RANGE_SINCE:
        own = []
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=own)
