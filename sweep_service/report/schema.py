"""The JSON Schema of the report, on standard output.

python -m sweep_service.report.schema > sweep_service/report/report.schema.json
"""

import json
import sys

from sweep_service.report.model import report_schema

if __name__ == "__main__":
    sys.stdout.write(json.dumps(report_schema(), indent=1, ensure_ascii=False) + "\n")
