"""The JSON files of a model's folder."""

import json
from pathlib import Path
from typing import Any, cast

from collector.errors import UserError


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a model folder; empty when the file is not there."""
    if not path.is_file():
        return {}
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))  # JSON enters here
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}; download the model folder again") from error
    if not isinstance(value, dict):
        found = type(cast(object, value)).__name__
        raise UserError(f"{path} holds {found}, expected a JSON object; download the model folder again")
    return cast(dict[str, Any], value)
