"""`python -m sweep_service` is `sweeps`."""

from sweep_service.cli import main

main()
