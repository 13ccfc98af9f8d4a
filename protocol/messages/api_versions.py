"""ApiVersions (api key 18): which requests are served, in which versions (KIP-35).

v1   throttle time (KIP-124)
v2   clients throttle themselves (KIP-219)
v3   flexible, and the client's name and version (KIP-511), features (KIP-584)
v4   a feature's minimum may be 0 (KAFKA-17011)

Often the first request of a connection, sent before the client knows our versions. So the answer
has response header v0 in every version, and a v0 body where the version asked for is unknown.
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
    """The client library, where it tells."""

    client_software_name: String = since(3, default="")
    client_software_version: String = since(3, default="")


@struct
class ApiVersionsResponseApiKey(Struct):
    """One request type and its versions."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class ApiVersionsResponseSupportedFeature(Struct):
    """A feature this broker knows, in which levels."""

    name: String
    min_version: Int16
    max_version: Int16


@struct
class ApiVersionsResponseFinalizedFeature(Struct):
    """A feature the cluster has settled on."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(api_key=ApiKey.API_VERSIONS, flexible=3)
class ApiVersionsResponse(Message):
    """What is served."""

    error_code: Int16
    api_keys: list[ApiVersionsResponseApiKey]
    throttle_time_ms: Int32 = since(1, default=0)
    supported_features: list[ApiVersionsResponseSupportedFeature] = since(3, tag=0, factory=list)
    finalized_features_epoch: Int64 = since(3, tag=1, default=-1)
    finalized_features: list[ApiVersionsResponseFinalizedFeature] = since(3, tag=2, factory=list)
    zk_migration_ready: Boolean = since(3, tag=3, default=False)
