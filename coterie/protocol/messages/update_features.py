"""UpdateFeatures (API key 57): change the finalized levels of features (KIP-584).

v0   flexible encoding
v1   upgrade_type instead of allow_downgrade, validate_only (KIP-778)
v2   no result for each feature (KIP-1022)
"""

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
    until,
)

# Upgrade types: only to a higher level, or to a lower one that loses no metadata, or to any lower
# one.
UPGRADE = 1
SAFE_DOWNGRADE = 2
UNSAFE_DOWNGRADE = 3


@struct
class UpdateFeaturesRequestFeature(Struct):
    """A feature and its new level; level 0 removes it from the finalized ones."""

    feature: String
    max_version_level: Int16
    allow_downgrade: Boolean = until(0, default=False)
    upgrade_type: Int8 = since(1, default=UPGRADE)


@message(api_key=ApiKey.UPDATE_FEATURES, flexible=0)
class UpdateFeaturesRequest(Message):
    """The features to change, all of them or none."""

    timeout_ms: Int32 = 60_000
    feature_updates: list[UpdateFeaturesRequestFeature]
    validate_only: Boolean = since(1, default=False)


@struct
class UpdateFeaturesResponseFeature(Struct):
    """The result for a feature."""

    feature: String
    error_code: Int16
    error_message: String | None


@message(api_key=ApiKey.UPDATE_FEATURES, flexible=0)
class UpdateFeaturesResponse(Message):
    """The result, and up to version 1 that for each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16
    error_message: String | None
    results: list[UpdateFeaturesResponseFeature] = until(1, factory=list)
