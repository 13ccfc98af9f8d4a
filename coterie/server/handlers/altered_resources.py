"""What AlterConfigs and IncrementalAlterConfigs share: resources are altered in steps."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from coterie.server.config.changes import alter_each
from coterie.server.config.resources import Change, Outcome, Resource
from coterie.server.metadata.topic_changes import Change as TopicChange
from coterie.server.network.sliced_response import made_in_steps
from coterie.server.services import Services

Answer = TypeVar("Answer")


def alter_resources(
    broker: Services,
    request: Any,
    change_of: Callable[[Any], Change],
    answer: Callable[..., Answer],
    *,
    replace: bool,
) -> TopicChange[list[Answer]]:
    """Alter the resources of a request, or only check whether they could be altered.

    Args:
        broker: the broker whose settings are changed.
        request: an AlterConfigs or an IncrementalAlterConfigs; they name their fields alike.
        change_of: returns the change that the request asks of a setting.
        answer: the class of the part of the response about a resource.
        replace: whether settings that are not named return to their default.
    """
    resources = []
    for each in request.resources:
        changes = yield from made_in_steps(change_of, each.configs)
        resources.append(Resource(each.resource_type, each.resource_name, changes))
        yield None
    outcomes = yield from alter_each(
        broker, resources, replace=replace, only_check=request.validate_only
    )

    def answered(altered: tuple[Resource, Outcome]) -> Answer:
        resource, (error, text) = altered
        return answer(
            error_code=error,
            error_message=text,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )

    pairs: Iterable[tuple[Resource, Outcome]] = zip(resources, outcomes, strict=True)
    return (yield from made_in_steps(answered, pairs))
