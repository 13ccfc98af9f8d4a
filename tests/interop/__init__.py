"""Real programs, unmodified, against a broker: `make interop`.

A program is a file in `programs/`: it starts something that other people wrote, such as Kafka
Streams or kcat, lets it work, kills it where its promise is about that, and checks what came out.
The parts are fetched from package registries once; what cannot be had is skipped, and the reason is
printed. `make test` needs none of it.

With --bootstrap-server the programs run against a broker that is there, such as Apache Kafka, which
shows whether a check expects the right thing. What needs to kill the broker is skipped then.
"""
