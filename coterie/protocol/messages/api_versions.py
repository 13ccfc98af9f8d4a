"""ApiVersions (API key 18): the served APIs and their versions (KIP-35).

v1   throttle_time_ms (KIP-124)
v2   the client itself waits for the throttle time (KIP-219)
v3   flexible encoding, name and version of the client library (KIP-511), features (KIP-584)
v4   the minimum of a feature may be 0 (KAFKA-17011)

A client often sends it first, before it knows the broker's versions. Therefore the response header
never has tagged fields [framing/request-header], and a request of an unknown version is
answered in version 0 [framing/served-versions].
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)


@message(api_key=ApiKey.API_VERSIONS, flexible=3)
class ApiVersionsRequest(Message):
    """The name and the version of the client library."""

    client_software_name: String = since(3, default="")
    client_software_version: String = since(3, default="")


@struct
class ApiVersionsResponseApiKey(Struct):
    """One API and the versions that are served."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class ApiVersionsResponseSupportedFeature(Struct):
    """A feature that the broker supports, with its lowest and highest level."""

    name: String
    min_version: Int16
    max_version: Int16


@struct
class ApiVersionsResponseFinalizedFeature(Struct):
    """A feature with the levels that the whole cluster uses."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(api_key=ApiKey.API_VERSIONS, flexible=3)
class ApiVersionsResponse(Message):
    """The served APIs and the features of the cluster."""

    error_code: Int16
    api_keys: list[ApiVersionsResponseApiKey]
    throttle_time_ms: Int32 = since(1, default=0)
    supported_features: list[ApiVersionsResponseSupportedFeature] = since(3, tag=0, factory=list)
    finalized_features_epoch: Int64 = since(3, tag=1, default=-1)
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = since(3, tag=2, factory=list)
    zk_migration_ready: Boolean = since(3, tag=3, default=False)
