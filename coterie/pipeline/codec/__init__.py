"""Bulk decoding of logs with numpy and Arrow; needs no Spark.

    numbers    integers and varints at many positions at once
    framing    where batches begin; checksums; going on after damage
    order      offsets and epochs of neighbours, which no checksum covers
    records    the records of many batches at once
    piece      a piece of a log with its records opened
    commits, groups, epochs, views    from records to the rows of each view
    decoder    a segment, piece by piece

Invariant: the rows are those that `protocol.records` and `protocol.messages` decode one by one, and
whatever those refuse is damage with its bytes, file and position. Nothing is dropped in silence.
"""
