"""The API's OpenAPI description: FastAPI's own, corrected where it cannot be told."""

from threading import Lock
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

_MAKING: Final = Lock()


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the description, which is made once, however many threads ask for it first."""
    with _MAKING:  # FastAPI changes the filters of warnings of the whole process while it makes one
        if app.openapi_schema is None:
            app.openapi_schema = _make(app)
    return app.openapi_schema


def _make(app: FastAPI) -> dict[str, Any]:
    description = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    for operations in description["paths"].values():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400 and "application/json" in (content := response.get("content", {})):
                    content["application/problem+json"] = content.pop("application/json")
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
    return description


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """Describe a parameter that may be left out by its values alone: an address has no null."""
    options = [option for option in schema.get("anyOf", ()) if option != {"type": "null"}]
    if options == schema.get("anyOf", []):
        return schema
    values = options[0] if len(options) == 1 else {"anyOf": options}
    return {**values, **{name: value for name, value in schema.items() if name not in ("anyOf", "default")}}
