"""The projection of the store to MLflow: runs for sweeps, configs and trials, their curves, and a page of charts."""
