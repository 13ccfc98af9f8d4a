"""Coordinators: pure state machines over the records of an internal topic.

There is no event loop, clock, socket or randomness in this package. `kernel` has what coordinators
share, `groups` and `transactions` are coordinators. What the server has to do comes back as data,
`kernel.effects.Effects`.
"""
