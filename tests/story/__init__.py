"""A workload of real clients with an independent log, and its comparison with what Coterie says.

`python -m tests.story` (`make story`) starts 13 groups with more than 30 members of three client
libraries, stops, kills and pauses them, and writes down every start, signal and callback with its
own clock. Then it compares this log with the tables, the page and the terminal, and prints what
contradicts. With `--kafka HOST:PORT` the same happens to a real Kafka.

scenario   the groups and what happens to them
record     the independent log: one session for each process, with its callbacks
workload   runs the scenario
shown      what the pipeline and the command line say about the same time
compare    the contradictions between the two
"""
