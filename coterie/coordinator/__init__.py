"""The group coordinator: pure state machines over log records.

There is no event loop, clock, socket or randomness in this package. Requests go to
`service.GroupCoordinator`; what the server has to do comes back as `effects.Effects`.
"""
