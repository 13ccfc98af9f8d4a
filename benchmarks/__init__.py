"""Side-by-side measurements of Kafka group coordinators (`make bench`, docs/benchmarks.md).

    __main__   options, progress, tables        rounds     who is measured when
    brokers    ours, the mock, the floor, peers report     tables, ratios, JSON
    generator  the process that makes the load  scenarios/ the measurements, one a file
    steady     one request over and over        member, assembly   groups that form and rebalance
    frames, answers   bytes by hand             processes  CPU and memory from /proc

The generator does not use the packages that it measures, but for the names of error codes.
"""
