"""The sweep service: takes a sweep over REST, runs it on Ray, records it in MLflow and reports which beta is best."""
