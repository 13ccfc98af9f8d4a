"""Records whose bytes name a schema of a registry: Avro, JSON Schema and Protobuf.

wire              the bytes before a value: magic, id, indexes of a message
address           where a registry is, and what it answers
schemas           schemas by their ids, each read once
avro_values       values by a schema of Avro
protobuf_values   values by a schema of Protobuf
decoding          a part of a record, decoded or with the reason why not

Invariants: a part that cannot be decoded never fails its record; a registry that does not answer is
not asked again for every record; no user and no password of its URL are shown. Libraries are
imported when the first schema of their kind is needed (`pip install 'coterie[registry]'`).
"""
