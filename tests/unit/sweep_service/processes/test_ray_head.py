from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

from sweep_service.processes.ray_head import head_environment


def test_a_head_starts_no_client_server() -> None:
    module, _, name = head_environment(Path("token"), 1, Path("sign"))["RAY_START_HOOK"].rpartition(".")
    params = SimpleNamespace(ray_client_server_port=10001)
    getattr(import_module(module), name)(params, False)
    assert params.ray_client_server_port is None


def test_ray_kills_no_actor_for_memory_that_others_use() -> None:
    assert head_environment(Path("token"), 1, Path("sign"))["RAY_memory_monitor_refresh_ms"] == "0"
