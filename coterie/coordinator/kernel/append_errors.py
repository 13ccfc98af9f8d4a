"""The errors that clients get after a failed log append [coordinator/error-translation]."""

from coterie.protocol.errors import ErrorCode

_APPEND_ERRORS = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
    # Kafka raises this one while it verifies a transaction. Older clients retry the translation
    # without looking for another coordinator.
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}


# The error of an operation that does not fit a batch [coordinator/operation-size].
LARGE_OPERATION_ERROR = _APPEND_ERRORS[ErrorCode.MESSAGE_TOO_LARGE]


def translate_append_error(error: ErrorCode) -> ErrorCode:
    """Return the error for clients when a log append fails [coordinator/error-translation]."""
    return _APPEND_ERRORS.get(error, error)
