"""A Faust application that doubles numbers: arguments are servers, its name and two topics."""

import sys

import faust  # type: ignore[import-not-found]

BOOTSTRAP, NAME, SOURCE, SINK = sys.argv[1:5]
sys.argv[1:] = ["worker", "--loglevel", "warn", "--without-web"]
BYTES = {
    "key_type": bytes,
    "key_serializer": "raw",
    "value_type": bytes,
    "value_serializer": "raw",
}

app = faust.App(
    NAME,
    broker=f"kafka://{BOOTSTRAP}",
    store="memory://",
    processing_guarantee="exactly_once",
    topic_replication_factor=1,
    topic_partitions=2,
    broker_commit_interval=0.5,
    consumer_auto_offset_reset="earliest",
    web_enabled=False,
)
source = app.topic(SOURCE, **BYTES)
sink = app.topic(SINK, **BYTES)


@app.agent(source)  # type: ignore[untyped-decorator]
async def double(numbers: faust.Stream) -> None:
    """Send the double of each number."""
    async for key, value in numbers.items():
        await sink.send(key=key, value=str(2 * int(value)).encode())


app.main()
