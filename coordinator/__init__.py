"""The group coordinator: pure state machines over log records. No loop, clock, socket or chance.

`service.GroupCoordinator` is the way in; `effects.Effects` is what comes out.
"""
