"""Change the configs of topics and brokers (KIP-339): set, unset, append and subtract."""

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8

from cluster.files.messages import ConfigRecord
from cluster.reference.controller.draft import Draft
from cluster.reference.controller.partitions import find_leaders
from cluster.reference.messages.control import (
    APPEND_CONFIG,
    BROKER_RESOURCE,
    DELETE_CONFIG,
    SET_CONFIG,
    SUBTRACT_CONFIG,
    TOPIC_RESOURCE,
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from cluster.reference.settings import SettingsError


def alter_configs(
    draft: Draft, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change configs. For each resource, either all of its changes apply, or none."""
    responses = tuple(
        _alter(draft, each, validate_only=request.validate_only) for each in request.resources
    )
    if not request.validate_only:
        find_leaders(draft)  # The change may have allowed unclean elections.
    return IncrementalAlterConfigsResponse(responses=responses)


def _alter(
    draft: Draft, resource: AlterConfigsResource, *, validate_only: bool
) -> AlterConfigsResourceResponse:
    error, why = _objection(draft, resource)
    if error is ErrorCode.none:
        now = draft.image.config(resource.resource_type, resource.resource_name)
        values = {each.name: _value(now.get(each.name), each) for each in resource.configs}
        kept = {name: value for name, value in {**now, **values}.items() if value is not None}
        try:
            draft.settings.topic(kept)
        except SettingsError as wrong:
            error, why = ErrorCode.invalid_config, str(wrong)
        else:
            if not validate_only:
                _write(draft, resource, values)
    return AlterConfigsResourceResponse(
        error_code=error,
        error_message=why,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def _objection(draft: Draft, resource: AlterConfigsResource) -> tuple[ErrorCode, str | None]:
    kind, name = resource.resource_type, resource.resource_name
    if kind == TOPIC_RESOURCE and name not in draft.image.topics:
        return ErrorCode.unknown_topic_or_partition, f"The topic '{name}' does not exist."
    known = [str(each) for each in draft.image.brokers]
    if kind == BROKER_RESOURCE and name and name not in known:
        return ErrorCode.broker_id_not_registered, f"No broker with id {name} found."
    if kind not in (TOPIC_RESOURCE, BROKER_RESOURCE):
        return ErrorCode.invalid_request, f"Unexpected resource type {kind}."
    if len({each.name for each in resource.configs}) != len(resource.configs):
        return ErrorCode.invalid_request, "Error due to duplicate config keys"
    return ErrorCode.none, None


def _value(now: str | None, wanted: AlterableConfig) -> str | None:
    listed = [each for each in (now or "").split(",") if each]
    changed = [each for each in (wanted.value or "").split(",") if each]
    match wanted.config_operation:
        case operation if operation == SET_CONFIG:
            return wanted.value
        case operation if operation == DELETE_CONFIG:
            return None
        case operation if operation == APPEND_CONFIG:
            return ",".join(listed + [each for each in changed if each not in listed])
        case operation if operation == SUBTRACT_CONFIG:
            return ",".join(each for each in listed if each not in changed)
        case _:
            return now


def _write(draft: Draft, resource: AlterConfigsResource, values: dict[str, str | None]) -> None:
    now = draft.image.config(resource.resource_type, resource.resource_name)
    for name, value in values.items():
        if now.get(name) != value:
            draft.write(
                ConfigRecord(
                    resource_type=i8(resource.resource_type),
                    resource_name=resource.resource_name,
                    name=name,
                    value=value,
                )
            )
