"""Texts that Kafka answers beside some error codes, where clients show them to people."""

INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the"
    " message was sent to an incompatible broker. See the broker logs for more details."
)
UNKNOWN_TOPIC_TEXT = "This server does not host this topic-partition."
UNKNOWN_TOPIC_ID_TEXT = "This server does not host this topic ID."
