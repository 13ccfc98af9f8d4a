"""What is said about rebalancing, and what the lab shows of it.

The claims come from five texts of engineers about Kafka, Connect and RocketMQ. Verdicts:

shown     a run of the lab, or the source, shows it
partly    it is true under a condition that the claim leaves out
refuted   it is not so
"""

from typing import NamedTuple


class Claim(NamedTuple):
    """A claim.

    Attributes:
        number: stable; scenarios refer to it.
        claim: in our words.
        verdict: shown, partly or refuted.
        finding: what we found.
        command: what shows it; "" if only the source does.
    """

    number: int
    claim: str
    verdict: str
    finding: str
    command: str = ""


_RUN = "coterie lab run"
# In a checkout: the fault is laid over the machine, and no part of it.
_PLANTED = "python -m tests.lab.planted"

CLAIMS = (
    Claim(1, "In the ZooKeeper era each consumer had an ephemeral node under its group.", "shown",
          "The trace of a run shows the nodes come and go with sessions.",
          f"{_RUN} herd --machine zookeeper --trace herd.txt --verbose"),
    Claim(2, "Every consumer watched the members and the brokers.", "partly",
          "Members and topics, yes; the list of brokers only while no broker was there. The trace"
          " has each watch.",
          f"{_RUN} three-and-one --machine zookeeper --trace watches.txt --verbose"),
    Claim(3, "One change wakes every consumer: a herd.", "shown",
          "One member joins thirty: 32 attempts and 2,603 requests; a coordinator gets 1,099.",
          f"{_RUN} herd"),
    Claim(4, "ZooKeeper is eventually consistent, so members decide on different views.", "partly",
          "Followers lag but never go back. If they lag by up to 2 s, attempts fail: a deploy of"
          " ten pods costs 462 partition-seconds instead of 279.",
          f"{_RUN} rolling-deploy --machine zookeeper --set zk_lag_ms=2000"),
    Claim(5, "Two old consumers could read one partition.", "partly",
          "Not while sessions live. Cut from ZooKeeper for 60 s, a member reads its four partitions"
          " on after they were given away: 220 partition-seconds.",
          f"{_RUN} partitioned-member"),
    Claim(6, "A coordinator for each group takes the load off ZooKeeper.", "shown",
          "A rolling deploy of ten pods: 8,849 requests with ZooKeeper, 1,189 with a coordinator.",
          f"{_RUN} rolling-deploy"),
    Claim(7, "ILLEGAL_GENERATION tells members of a rebalance.", "partly",
          "Until September 2015. Since then REBALANCE_IN_PROGRESS does; the other means that the"
          " member was left behind. The trace of the older draft has it, that of the newer one and"
          " of today's protocol has not.",
          f"{_RUN} three-and-one --machine server-2015 --set draft=2015-08 --trace heartbeats.txt"
          " --verbose"),
    Claim(8, "The broker-side draft stored the assignment in ZooKeeper.", "refuted",
          "It kept groups in memory: when the coordinator moves the group is lost, and members that"
          " come back one by one read the partitions of those who are still away.",
          f"{_RUN} coordinator-moves"),
    Claim(9, "A new strategy meant changing the broker.", "shown",
          "The draft knew range and roundrobin, and refused others with an error code: with sticky"
          " nobody ever reads.",
          f"{_RUN} three-and-one --machine server-2015 --set strategy=sticky"),
    Claim(10, "During a rebalance nobody reads.", "partly",
          "Eager members stop when they rejoin, not when the rebalance begins. Cooperative members"
          " stop only what moves.", f"{_RUN} slow-joiner"),
    Claim(11, "Each redeployed instance costs two rebalances.", "shown",
          "At most. Ten pods, one each 10 s, need 11: a leave and the next join often share one.",
          f"{_RUN} rolling-deploy"),
    Claim(12, "A long pause of the garbage collector rebalances the group.", "shown",
          "If it is longer than the session: 6 s, 10 s, 30 s or 45 s. RocketMQ takes two minutes.",
          f"{_RUN} gc-pause"),
    Claim(13, "A static group rebalances on four occasions only.", "shown",
          "The coordinator is the real one; its transcripts static_1 to static_4 show each.",
          f"{_RUN} bounce-one --machine static"),
    Claim(14, "A static member that restarts in time causes no rebalance.", "shown",
          "True, but its own partitions wait for it: a deploy costs 325 partition-seconds, and a"
          " cooperative one 63, because others take over.", f"{_RUN} rolling-deploy"),
    Claim(15, "Cooperative: the third of three members gets one partition of each.", "shown",
          "Two moves in two generations, and two is the least possible.", f"{_RUN} three-and-one"),
    Claim(16, "A log of two clients shows generations 9, 10 and 11, three seconds apart.", "shown",
          "The seconds are the heartbeat of the client that had nothing to give up. The trace has"
          " the log of both: what each owns, is assigned and revokes, by generation.",
          f"{_RUN} three-and-one --machine cooperative --members 1 --partitions 3"
          " --trace clients.txt --verbose"),
    Claim(17, "Handing a partition over in one round would let two members read it.", "shown",
          "The planted fault is found by the invariant that a partition has one owner.",
          f"{_PLANTED} handover-at-once three-and-one --machine cooperative --seed 1"),
    Claim(18, "With hundreds of members the eager protocol is a disaster.", "partly",
          "The protocol settles 500 members in about 4 s. The disaster is the slowest poll, for"
          " which everybody waits.", f"{_RUN} hours"),
    Claim(19, "Connect: the tasks of a lost worker wait for the delay.", "shown",
          "A worker that is back after 27 s stays empty until 45 s have passed; real workers did"
          " the same.", f"{_RUN} bounce-one --machine connect --set connect_delay_ms=45000"),
    Claim(20, "Connect: after the delay the others take over.", "shown",
          "With a delay of 2 s and pods that are down for 8 s, others take over in between; real"
          " workers did so after 10.0 of 10 s.",
          f"{_RUN} rolling-deploy --machine connect --set connect_delay_ms=2000"),
    Claim(21, "Incremental rebalancing came with 2.4 and waits for a lost member.", "partly",
          "That is Connect, since 2.3. The consumer of 2.4 has no delay at all.",
          f"{_RUN} bounce-one --machine connect --machine cooperative"),
    Claim(22, "More members than partitions: some are idle.", "shown",
          "Under every protocol but POP and share groups, whose members share partitions.",
          f"{_RUN} three-and-one --partitions 2"),
    Claim(23, "A rebalance can take hours.", "partly",
          "Not by the protocol. With polls of 10 s, a deploy of 24 pods loses 55 % of its time.",
          f"{_RUN} hours"),
    Claim(24, "RocketMQ: all clients agree because all sort the same lists.", "partly",
          "Only once all have asked after the last change; until then two lists are in use.",
          f"{_RUN} rolling-deploy --machine rocketmq-5"),
    Claim(25, "RocketMQ's POP needs no rebalance.", "shown",
          "No partition is ever without a reader. What a client had in hand comes again after the"
          " invisible time.", f"{_RUN} gc-pause --machine rocketmq-pop"),
    Claim(26, "A rebalance means a pause, repeated records, and a spike afterwards.", "shown",
          "All three are columns of every run.", f"{_RUN} gc-pause"),
    Claim(27, "A longer commit interval means more duplicates.", "shown",
          "After a crash: half of the interval, times the rate, times the member's partitions.",
          f"{_RUN} gc-pause --machine eager-3 --set commit_ms=60000"),
    Claim(28, "RocketMQ avoids two readers by sorting.", "partly",
          "Sorting gives equal shares, not the moment of handing over: a rolling deploy delivers"
          " more than a thousand records twice.", f"{_RUN} rolling-deploy --machine rocketmq-4"),
    Claim(29, "RocketMQ's timer of 20 s heals lost notices.", "shown",
          "With every notice lost, a group settles within 20 s.",
          f"{_RUN} bounce-one --machine rocketmq-4 --set notices_lost=1"),
    Claim(30, "Allocation topic by topic leaves members idle.", "shown",
          "Two topics with two queues each and four clients: two have nothing, also in reality.",
          f"{_RUN} two-topics --machine rocketmq-4 --machine cooperative"),
    Claim(31, "Kafka looks at all topics together, so it is more even.", "partly",
          "Cooperative-sticky does. Range, the default at that time, goes topic by topic too.",
          f"{_RUN} two-topics --machine eager-0.10.1 --machine cooperative"),
    Claim(32, "mqadmin allocateMQ previews the allocation.", "refuted",
          "RocketMQ 5.4.0 printed queues 7, 5 and 6 for a client that took 0, 1 and 2: it"
          " does not sort. A client that allocates as it does reads what others read, too.",
          f"{_PLANTED} unsorted three-and-one --machine rocketmq-4"),
)  # fmt: skip
