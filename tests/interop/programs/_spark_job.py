"""A streaming query that doubles numbers.

Arguments: jars, properties of the clients as JSON, topics, a directory, and the protocol of groups.
"""

import json
import sys

from pyspark.sql import SparkSession


def main(jars: str, client: str, source: str, sink: str, checkpoint: str, protocol: str) -> None:
    """Process everything that is there, in small batches, and end."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    options = {f"kafka.{name}": value for name, value in json.loads(client).items()}
    numbers = (
        spark.readStream.format("kafka")
        .options(**options)
        .option("kafka.isolation.level", "read_committed")
        .option("kafka.group.protocol", protocol)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "300")
        .load()
    )
    doubled = numbers.selectExpr("key", "string(2 * int(string(value))) AS value")
    query = (
        doubled.writeStream.format("kafka")
        .options(**options)
        .option("topic", sink)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
