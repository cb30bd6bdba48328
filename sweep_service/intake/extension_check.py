"""Checks what a user adds to a sweep that has been submitted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from sweep_service.errors import InvalidSpec, SpecError, pointer
from sweep_service.intake.catalog_check import check_catalog
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.extension import Extension, extended, shrunk
from sweep_service.sweep.plan import too_many_confirmed
from sweep_service.sweep.spec import SweepSpec
from sweep_service.verbs import VERBS
from trainers.config.complaints import complaints, settings_of

_REFUSED: Final = VERBS["extend"].refused


def check_extension(raw: object, spec: SweepSpec, cache: Path) -> SweepSpec:
    """Return the spec of a sweep with what a request, parsed JSON, adds to it.

    Values that are new to the space may name models and data, which the catalog in `cache` must have.

    Raises: InvalidSpec, with every reason why it cannot be; its pointers lead into the request.
    """
    try:
        extension = Extension.model_validate(raw)
    except ValidationError as error:
        reasons = complaints(error, raw if isinstance(raw, Mapping) else {}, settings_of(Extension))
        raise InvalidSpec([SpecError(pointer(one.path), one.sentence) for one in reasons], _REFUSED) from error
    if errors := shrunk(spec, extension):
        raise InvalidSpec(errors, _REFUSED)
    try:
        more = parse_spec(extended(spec, extension), of_before=True)
        confirm = extension.seeds and extension.seeds.confirm
        if confirm and confirm.top_k is not None and (errors := too_many_confirmed(more)):
            raise InvalidSpec(errors)
        if more.space != spec.space and more.trainer is None:
            check_catalog(more, cache)
        return more
    except InvalidSpec as error:
        raise InvalidSpec(error.errors, _REFUSED) from error
