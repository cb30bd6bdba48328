"""What a sweep is: its spec, its records, its plan, cost and budget, and the objective. Pure, without a database."""
