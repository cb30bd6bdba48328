"""What the projection to MLflow is made of: the server's REST API, and how sweeps and trials are said in its words."""
