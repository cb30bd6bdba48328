"""The JSON Schema of the report: `GET /v1/schemas/report`, and the copy in the documents.

python -m sweep_service.report.schema > docs/report.schema.json
"""

import json
import sys
from functools import cache

from sweep_service.report.model import Report


@cache
def schema_text() -> str:
    """Return the schema as JSON text. Definitions are published under their titles, not class names."""
    schema = Report.model_json_schema(mode="serialization", ref_template="#/$defs/{model}")
    names = {name: definition.get("title", name) for name, definition in schema["$defs"].items()}
    published = dict(sorted((names[name], definition) for name, definition in schema["$defs"].items()))
    text = json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "$defs": published})
    for name, title in names.items():
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{title}"')
    return json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
