"""The base of the API's models: camelCase names in YAML, frozen, unknown fields kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

# The API server does not check the format; a child with a larger number would get another one, or be refused.
Int32 = Annotated[int, Field(le=2**31 - 1, json_schema_extra={"format": "int32"})]
Int64 = Annotated[int, Field(json_schema_extra={"format": "int64"})]


def _int_or_string(value: Any) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise PydanticCustomError("int_or_string", "Input should be an integer or a string")
    return value


# Kubernetes accepts a surge as 2 or as "2".
IntOrString = Annotated[int | str, PlainValidator(_int_or_string), WithJsonSchema({"x-kubernetes-int-or-string": True})]


# To Kubernetes, a null item is an item without a value.
Texts = list[
    Annotated[
        str,
        BeforeValidator(lambda item: "" if item is None else item),
        WithJsonSchema({"type": "string", "nullable": True}),
    ]
]


def fields_given(value: Any) -> Any:
    """Return an object without its fields that are null, which are absent; another value as it is."""
    return {key: item for key, item in value.items() if item is not None} if isinstance(value, Mapping) else value


def one_of(*values: str) -> WithJsonSchema:
    """Return a schema with these values for writes. Any value can be read: another version may have set it."""
    return WithJsonSchema({"type": "string", "enum": list(values)})


class ApiModel(BaseModel):
    """A part of a custom resource. Unknown fields are kept (`model_extra`), so that they can be reported."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="allow",
        frozen=True,
        populate_by_name=True,
        serialize_by_alias=True,
        strict=True,  # like the API server: "3" is not an integer
    )

    _null_means_absent = model_validator(mode="before")(fields_given)

    def as_dict(self) -> dict[str, Any]:
        """Return the part as in YAML: camelCase names, absent fields left out."""
        return self.model_dump(exclude_none=True)

    def known_fields(self) -> dict[str, Any]:
        """Return the part as in YAML, without its unknown fields: the API server refuses them in a child."""
        given = {field.alias or name: getattr(self, name) for name, field in type(self).model_fields.items()}
        return {name: _known(value) for name, value in given.items() if value is not None}


def _known(value: Any) -> Any:
    if isinstance(value, list):
        return [_known(item) for item in value]
    return value.known_fields() if isinstance(value, ApiModel) else value


class ObjectMeta(ApiModel):
    """The object metadata that the operator reads."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    resource_version: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


def name_in(body: Mapping[str, Any]) -> str:
    """Return the object's name, also of an invalid object."""
    metadata = body.get("metadata")
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


@cache
def field_names(model: type[ApiModel]) -> Mapping[str, str]:
    """Map the names of the model's fields in YAML to its attributes."""
    return {field.alias or name: name for name, field in model.model_fields.items()}
