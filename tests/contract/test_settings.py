"""The settings of a training run: what each takes, in which bounds, and its default. A change here is one for users.

python -m tests.contract.test_settings > tests/contract/data/settings.json
"""

import json
import sys
from pathlib import Path
from typing import Any, cast

from trainers.config import TrainingConfig

KEPT = Path(__file__).parent / "data" / "settings.json"
_WORDS = {"description", "title"}


def settings() -> dict[str, Any]:
    """The JSON schema of a configuration without what is only for readers."""
    return cast("dict[str, Any]", _without_words(TrainingConfig.model_json_schema()))


def _without_words(part: Any, *, named: bool = False) -> Any:
    """Leave out words; under `named` keys are names of settings, however they read."""
    if isinstance(part, list):
        return [_without_words(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {key: value for key, value in part.items() if named or key not in _WORDS}
    return {
        key: _without_words(value, named=key in ("properties", "$defs") and not named) for key, value in kept.items()
    }


def _text(content: object) -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"


def test_settings_take_what_they_took_with_the_defaults_they_had() -> None:
    assert _text(settings()) == KEPT.read_text()


if __name__ == "__main__":
    sys.stdout.write(_text(settings()))
