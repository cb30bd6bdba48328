"""Reports: what they are built from, and the process that builds them while the worker goes on."""
