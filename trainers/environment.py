"""What every command of this package gives its libraries and tells its caller."""

from typing import Final

EXIT_CODES: Final = {"SUCCEEDED": 0, "FAILED": 1, "BAD_CONFIG": 2, "DIVERGED": 3, "STOPPED": 4}

# No run talks to the network, and mlflow, which TRL would import, has no part in it. Read when the libraries load.
ENVIRONMENT: Final = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_MLFLOW_INTEGRATION": "TRUE",
    "TOKENIZERS_PARALLELISM": "false",
}
