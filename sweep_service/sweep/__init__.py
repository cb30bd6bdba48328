"""A sweep as pure data and arithmetic, without a database: spec, records, plan, cost, budget and objective."""
