"""The status page: what people see of sweeps in a browser. Its routes are in `sweep_service.api.page_routes`."""
