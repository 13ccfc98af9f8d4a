"""Limits on what one peer may use, each with the reason for its value.

Kafka leaves most of these unlimited. A development broker meets fuzzers, unfinished clients and
port scanners, so every limit is finite here. Limits that have a name in Kafka are settings and are
defined in config/broker_keys.py. documentation/reference/limits.tsv lists all of them.
"""

# After its length a request has at least the API key, the API version, the correlation id and the
# length of the client id [framing/frame-length].
SMALLEST_REQUEST_BYTES = 10

# A request must arrive completely within this time, plus the time that a link of 1 MiB/s needs for
# the bytes received so far. Clients send a request in one go: ten seconds are enough for stalled
# Wi-Fi, and stop a peer that sends a byte a second to keep a connection open.
FRAME_DEADLINE_MS = 10_000
SLOWEST_LINK_BYTES_PER_MS = 1_049

# The time from the accept of a connection to the end of its login: the handshake of TLS, and that
# of SASL. Both take some round trips, and a peer that sends a byte a second must not stay.
LOGIN_DEADLINE_MS = 10_000

# Bytes kept for a muted connection before the server stops reading from its socket. Clients that
# pipeline have a few small requests in flight behind a JoinGroup or a long poll; anything more
# stays in the kernel's buffers.
RECEIVE_BUFFER_BYTES = 256 * 1024

# Incomplete requests and unhandled bytes of all connections together. Several requests of the
# largest size (socket.request.max.bytes, 100 MiB) fit, a thousand half-sent ones do not.
TOTAL_BUFFERED_BYTES = 512 * 1024 * 1024

# Requests of one connection that are handled in one turn of the event loop, whatever the clock
# says: 2 ms of heartbeats.
REQUESTS_PER_TURN = 512

# A larger request is decoded in slices, and its response encoded so. A request of this size has at
# most as many elements, which take two to four milliseconds.
LARGE_REQUEST_BYTES = 4_096

# A Produce is decoded at once up to this size: most of it are records, which are not decoded here,
# and the slices cost seven percent of a batch of 16 KiB. If it has only topics, they are some
# 10,000, which take ten milliseconds with their handling.
LARGE_PRODUCE_BYTES = 32_768

# Responses up to this size are collected and written together; 512 of them stay below the
# high-water mark of the transport. A larger response is written at once, so that a peer that does
# not read is noticed before its next request is handled.
SMALL_RESPONSE_BYTES = 2_048

# When so many bytes of responses are unread, the connection is muted.
UNREAD_HIGH_BYTES = 1024 * 1024

# A peer with more unread bytes than that is disconnected if it reads nothing for this long. Kafka's
# clients give up on a request after 30 s by default, so they no longer wait for these bytes.
UNREAD_DEADLINE_MS = 30_000

# With more unread bytes than this a peer is disconnected at once. The limit leaves room for the
# largest Fetch response (fetch.max.bytes, 55 MiB) that may start below the high-water mark and for
# the responses in flight at that moment.
UNREAD_LIMIT_BYTES = 128 * 1024 * 1024

# While connections that do not read have more unread bytes than this together, a Fetch gets at most
# UNREAD_HIGH_BYTES. A Kafka sends records from its files; here each response is in memory, and a
# hundred stopped consumers would hold 5 GiB.
TOTAL_UNREAD_BYTES = 512 * 1024 * 1024

# Requests of one connection whose responses wait for the disk. Producers have at most 5 in flight
# and librdkafka's commits a handful; beyond this number the connection is muted until the disk has
# caught up.
DELAYED_RESPONSES = 1_024

# A closing connection whose peer does not read the last bytes is aborted after this time.
CLOSING_DEADLINE_MS = 5_000

# A connection that has sent a request in this time before the server stops may be sending the next
# one. Such connections have until the end of the stop to read their last responses.
BUSY_MS = 250

# How often the deadlines of all connections are checked. A pass over 10,000 connections takes 1 ms.
SWEEP_INTERVAL_MS = 1_000

# Log lines about closed connections between two sweeps. Further ones are counted in one line, so
# that a flood of bad connections does not fill a disk.
CLOSE_LINES_PER_SWEEP = 50

# Connections that the kernel keeps until the server accepts them: thousands of test clients may
# connect at once.
LISTEN_BACKLOG = 4_096
