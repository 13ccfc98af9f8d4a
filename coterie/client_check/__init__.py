"""`coterie check-client`: what a consumer program does, judged by the rules of the protocol.

Each scenario starts the program against a scripted broker: our own server, behind connections that
record every request and can answer otherwise than the server does. Afterwards the scenario judges
the conversation, one verdict for each of its checks.

    model.py         checks, verdicts, scenarios
    suite.py         runs the scenarios, several at once
    run.py           one run of the program in one scenario
    script.py        what the broker does to requests and responses, as data
    connection.py    a connection of the client, where the script is applied
    broker.py        the server, its topics and groups, and the second node
    members.py       members of the group that the scenario plays itself
    membership.py    the client's place in its group, in either protocol
    conversation.py  the recorded requests and responses
    lines.py         the conversation in the notation of the transcripts
    program.py       the program as a process
    checks/          the scenarios, by subject
"""
