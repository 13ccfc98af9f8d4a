"""UpdateFeatures: change the finalized levels of features, all or none (KIP-584).

The checks and their texts are those of Kafka's controller [features/update-checks].
"""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpdateFeaturesResponseFeature,
)
from coterie.server.features import METADATA_VERSION
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.metadata.topic_changes import Change
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services
from coterie.storage.errors import describe_error

_UPGRADE_TYPES = (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE)
_WITHOUT_TYPE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
    " unsafe downgrade."
)
_REFUSED = "The update failed for all features since the following feature had an error: "


def handle(
    broker: Services, request: UpdateFeaturesRequest, connection: Exchange
) -> UpdateFeaturesResponse | None:
    """Change the features, or only check whether they could be changed."""
    return answer_with_change(broker, connection, _update(broker, request))


def _update(broker: Services, request: UpdateFeaturesRequest) -> Change[UpdateFeaturesResponse]:
    # Of a feature that is named twice, the last update counts.
    updates = {
        each.feature: (each.max_version_level, each.upgrade_type)
        for each in request.feature_updates
    }
    for name, (level, upgrade_type) in updates.items():
        yield None
        reason = _refusal(broker, name, level, upgrade_type)
        if reason is not None:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=f"{_REFUSED}{reason}"
            )
    levels = {
        name: level for name, (level, _) in updates.items() if level != broker.features.level(name)
    }
    if levels and not request.validate_only:
        try:
            yield from broker.features.change(levels)
        except OSError as error:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.KAFKA_STORAGE_ERROR, error_message=describe_error(error)
            )
    return UpdateFeaturesResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        results=[
            UpdateFeaturesResponseFeature(
                feature=each.feature, error_code=ErrorCode.NONE, error_message="NONE"
            )
            for each in request.feature_updates
        ],
    )


def _refusal(broker: Services, name: str, level: int, upgrade_type: int) -> str | None:
    """Return why a feature cannot get a level; None if it can."""
    current = broker.features.level(name)
    reason = _check(broker, name, level, upgrade_type)
    if reason is not None:
        return f"Invalid update version {level} for feature {name}. {reason}"
    if name != METADATA_VERSION or level == current:
        return None
    # As in Kafka, where each version since 3.3 has changed how metadata is stored.
    if upgrade_type == SAFE_DOWNGRADE:
        why = (
            "Refusing to perform the requested downgrade because it might delete metadata"
            " information."
        )
    else:
        why = "Unsafe metadata downgrade is not supported in this version."
    return f"Unsupported metadata.version downgrade from {current} to {level}. {why}"


def _check(broker: Services, name: str, level: int, upgrade_type: int) -> str | None:
    supported = broker.features.supported.get(name)
    current = broker.features.level(name)
    if upgrade_type not in _UPGRADE_TYPES:
        return "The controller does not support the given upgrade type."
    if level < 0:
        return "A feature version cannot be less than 0."
    if supported is None:
        if level == 0:
            return f"Feature {name} not found."
        return f"Local controller {broker.node_id} does not support this feature."
    if not supported.first <= level <= supported.last:
        first, last = supported
        return f"Local controller {broker.node_id} only supports versions {first}-{last}"
    if level < current and upgrade_type == UPGRADE:
        return _WITHOUT_TYPE
    if level > current and upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
