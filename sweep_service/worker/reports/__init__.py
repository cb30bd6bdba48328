"""Reports: their inputs, and the process that builds them while the worker goes on."""
