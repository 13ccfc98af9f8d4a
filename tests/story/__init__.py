"""A workload of real clients with an independent log, and its comparison with what Coterie says.

`python -m tests.story` (`make story`) starts 17 groups with more than 40 members of three client
libraries, stops, kills and pauses them, in some of them several things at once, and writes down
every start, signal and callback with its own clock. Then it compares this log with the tables, the
page and the terminal, prints what contradicts, and judges every finding. With `--kafka HOST:PORT`
the same happens to a real Kafka.

scenario   the groups and what happens to them
record     the independent log: one session for each process, with its callbacks
workload   runs the scenario
restart    kills the broker under live groups
shown      what the pipeline and the command line say about the same time
compare    the contradictions between the two
judged     every finding, judged right or wrong by the log
drawn      stories that nobody wrote, in virtual time
"""
