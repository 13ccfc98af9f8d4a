"""The hunt for long turns: every verb, with its largest request, on a server at its limits.

`requests.py` makes the requests, `verbs.py` has the list, `client.py` sends them, `timed.py` is the
server that measures itself, `__main__.py` the command.
"""
