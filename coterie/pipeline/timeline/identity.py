"""The identity of a member across restarts [pipeline/member-identity].

A dynamic member has a new member id each time it joins, so whatever counts what a member does over
time (causes of rebalances, short sessions) counts by identity. Page, terminal and tables use this
function.
"""


def member_identity(
    instance_id: str | None, client_id: str | None, client_host: str | None
) -> str | None:
    """Return the instance id of a static member, else `CLIENT_ID at HOST`.

    Returns:
        None if neither is known.
    """
    if instance_id:
        return instance_id
    if client_id is None and client_host is None:
        return None
    return f"{client_id or '?'} at {(client_host or '?').removeprefix('/')}"


def identity_of(
    member_key: str | None, member_id: str | None, client_id: str | None, client_host: str | None
) -> str | None:
    """Return the identity of a member by its key, which differs from its id if it is static."""
    is_static = member_key is not None and member_key != member_id
    return member_identity(member_key if is_static else None, client_id, client_host)
