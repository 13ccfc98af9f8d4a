"""The group coordinator: groups of every type, their offsets, and the log `__consumer_offsets`.

Requests go to `service.GroupCoordinator`. Each type of group has a folder of its own.
"""
