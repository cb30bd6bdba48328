"""The JSON Schema of the report: `GET /v1/schemas/report`, and the copy in the documents.

python -m sweep_service.report.schema > docs/report.schema.json
"""

import json
import sys
from functools import cache

from sweep_service.report.model import report_schema


@cache
def schema_text() -> str:
    """Return the schema as JSON text."""
    return json.dumps(report_schema(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
