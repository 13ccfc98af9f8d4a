"""What one peer may take: every limit of the connections, with the reason for its number.

Kafka leaves most of these unlimited; a development broker meets fuzzers, half-written clients and
port scanners, so each has a finite value here. Those that have a Kafka name are configuration
(config.py) and stand there.
"""

# A frame's length is followed by at least api key, api version, correlation id and the client id's
# length.
SMALLEST_REQUEST_BYTES = 10

# A frame that has started must be complete within this time, plus the time a slow link of 1 MiB/s
# needs for what has arrived so far. A client writes a request in one go; ten seconds cover a
# stalled Wi-Fi, not a slow-loris.
FRAME_DEADLINE_MS = 10_000
SLOWEST_LINK_BYTES_PER_MS = 1_049

# Bytes that wait behind a parked request before reading from that socket stops. Clients that
# pipeline have at most a few small requests in flight behind a JoinGroup or a long poll; the
# kernel's buffers hold the rest.
BACKLOG_BYTES = 256 * 1024

# Half-received frames and backlogs of all connections together. It stops a thousand peers that each
# send half of a 100 MiB request; a single honest one of that size, and several at a time, fit.
TOTAL_BUFFERED_BYTES = 512 * 1024 * 1024

# Requests handled in one go before other connections get their turn: about 2 ms of the loop.
REQUESTS_PER_TURN = 512

# Answers up to this size are collected and written together; 512 of them stay below the high-water
# mark. A larger one is written at once, so that a peer that does not read is noticed before its
# next request is handled.
SMALL_ANSWER_BYTES = 2_048

# Unread answers of one connection at which no further request of it is handled.
UNREAD_HIGH_BYTES = 1024 * 1024

# A peer that has more than that unread, and takes nothing for this long, is closed. Kafka's own
# clients give up on a request after 30 s, so nobody waits for these bytes any more.
UNREAD_DEADLINE_MS = 30_000

# Closed at once beyond this many unread bytes: the largest Fetch answer (fetch.max.bytes, 55 MiB)
# that was begun below the high-water mark, and the answers that were in flight by then.
UNREAD_LIMIT_BYTES = 128 * 1024 * 1024

# Requests of one connection whose answers wait for the disk. ProducerState have 5 in flight,
# librdkafka's commits a handful; past this number the connection is not read until the disk has
# caught up.
DELAYED_RESPONSES = 1_024

# A closed connection whose peer does not take the last bytes is cut after this time.
CLOSING_DEADLINE_MS = 5_000

# How often all connections are looked at for the deadlines above: one pass per second over 10,000
# of them costs 1 ms.
SWEEP_INTERVAL_MS = 1_000

# Log lines about closed connections per sweep; the rest is counted in one line, so that a flood
# does not fill a disk.
CLOSE_LINES_PER_SWEEP = 50

# Waiting connections the kernel keeps until they are accepted: thousands of test clients connect at
# once.
LISTEN_BACKLOG = 4_096
