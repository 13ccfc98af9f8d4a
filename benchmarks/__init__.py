"""Side-by-side measurements of Kafka group coordinators (`make bench`, docs/benchmarks.md).

    __main__   options, progress, tables        rounds     the order of the measurements
    brokers    ours, the mock, the floor, peers report     tables, ratios, JSON
    generator  the process that makes the load  scenarios/ the measurements, one in each file
    steady     one request over and over        member, assembly   groups that form and rebalance
    requests   frames in the agreed versions    processes  CPU and memory from /proc

The generator uses `coterie.protocol` for frames, and code of the server only where a scenario
measures that code without a broker.
"""
