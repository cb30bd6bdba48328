"""The typed Python client: the verbs, records and errors of the service, over HTTP.

with Client.from_env() as client:
    sweep = client.submit({"name": "betas", "space": {"loss.beta1": [0, 0.5, 1]}})
    client.wait(sweep.id)
    best = client.best(sweep.id)
    print(best.label, best.verdict_text)
"""

from sweep_service.client.errors import ClientError, Refused, TooLate, Unauthorized, Unreachable
from sweep_service.client.sweep_client import Client, ReportSoFar
from sweep_service.sweep.records import Event

__all__ = ["Client", "ClientError", "Event", "Refused", "ReportSoFar", "TooLate", "Unauthorized", "Unreachable"]
