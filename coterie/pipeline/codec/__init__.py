"""Bulk decoding of logs with numpy and Arrow, without Spark.

    numbers    integers and varints at many positions at once
    framing    where batches begin; checksums; how to continue after damage
    order      offsets and epochs of neighbouring batches, which no checksum covers
    records    the records of many batches at once
    piece      a piece of a log with its records decoded
    commits, groups, epochs, journal, views    from records to the rows of each view
    decoder    a segment, piece by piece

Invariant: the rows are those that `protocol.records` and `protocol.messages` decode one by one.
What these refuse is damage, with its bytes, file and position [pipeline/quarantine].
"""
