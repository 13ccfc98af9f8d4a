"""Checks of groups: what an operator would look for, as findings with cause and remedy.

`observation.py` reads a group, once or twice; `members.py`, `epochs.py`, `tasks.py`, `offsets.py`
and `history.py` have the rules, which are plain functions of an observation; `checks.py` has the
table of them. The rules are [client/checks].
"""
