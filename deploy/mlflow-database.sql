-- Runs once, when the volume is new: MLflow keeps its tables apart from the service's.
CREATE DATABASE mlflow;
