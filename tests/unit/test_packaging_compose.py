"""docker-compose.yml publishes little, runs everything with few rights, and waits for what is healthy."""

import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {"migrate", "catalog"}
RAY = {"ray-head", "ray-worker", "ray-worker-gpu", "worker"}  # processes that speak Ray's protocol

every_service = pytest.mark.parametrize("name", SERVICES)


def test_services_are_the_known_ones() -> None:
    assert set(SERVICES) == {"postgres", "migrate", "mlflow", "api", "catalog", *RAY}


def test_only_the_api_and_mlflow_are_published_and_only_on_loopback() -> None:
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8080:8080"], "mlflow": ["127.0.0.1:5000:5000"]}
    assert not [name for name, service in SERVICES.items() if "network_mode" in service]


@every_service
def test_networks_are_internal_but_for_what_is_published(name: str) -> None:
    networks = SERVICES[name]["networks"]
    open_networks = [network for network in networks if not COMPOSE["networks"][network].get("internal")]
    assert open_networks == (["hub"] if name == "catalog" else ["edge"] if "ports" in SERVICES[name] else [])


def test_only_the_catalog_reaches_the_hub_and_only_when_it_is_asked_to() -> None:
    assert [name for name, service in SERVICES.items() if "hub" in service["networks"]] == ["catalog"]
    assert SERVICES["catalog"]["profiles"] == ["catalog"]


def test_trials_cannot_reach_the_database() -> None:
    assert all(SERVICES[name]["networks"] == ["ray"] for name in RAY - {"worker"})
    assert SERVICES["postgres"]["networks"] == ["data"]


@every_service
def test_hardening(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    assert service["init"] is True
    assert service["user"] == ("999:999" if name == "postgres" else "10001:10001")
    assert service["pids_limit"] <= 2048
    assert service["mem_limit"]
    assert not {"privileged", "cap_add", "pid", "ipc", "devices"} & set(service)
    assert not [volume for volume in service.get("volumes", []) if "docker.sock" in volume]


@every_service
def test_health_checks(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    if name in ONE_SHOT:
        assert check == {"disable": True}
    else:
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries", "start_period"} <= set(check)


@every_service
def test_waits_for_what_is_healthy(name: str) -> None:
    for needed, wait in SERVICES[name].get("depends_on", {}).items():
        expected = "service_completed_successfully" if needed in ONE_SHOT else "service_healthy"
        assert wait == {"condition": expected}


def test_the_worker_waits_for_all_it_uses() -> None:
    assert set(SERVICES["worker"]["depends_on"]) == {"migrate", "postgres", "mlflow", "ray-head"}


@pytest.mark.parametrize("name", sorted(RAY))
def test_ray_asks_for_a_token(name: str) -> None:
    environment = SERVICES[name]["environment"]
    assert environment["RAY_AUTH_MODE"] == "token"
    assert environment["RAY_AUTH_TOKEN_PATH"] == "/run/secrets/ray_token"
    assert "ray_token" in SERVICES[name]["secrets"]


def test_ray_head_runs_no_work_and_no_dashboard() -> None:
    assert {"--num-cpus=0", "--num-gpus=0", "--include-dashboard=false"} <= set(SERVICES["ray-head"]["command"])


def test_the_gpu_node_is_optional_and_reserves_gpus() -> None:
    service = SERVICES["ray-worker-gpu"]
    assert service["profiles"] == ["gpu"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert [name for name, other in SERVICES.items() if "profiles" in other] == ["ray-worker-gpu", "catalog"]


def test_mlflow_checks_hosts_with_and_without_port_and_runs_no_jobs() -> None:
    environment = SERVICES["mlflow"]["environment"]
    hosts = environment["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert {"mlflow", "mlflow:5000", "127.0.0.1", "127.0.0.1:5000"} <= set(hosts)
    assert not [host for host in hosts if "*" in host]
    assert environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert not [part for part in SERVICES["mlflow"]["command"] if "gunicorn" in part or "waitress" in part]


@every_service
def test_secrets_are_files(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        if any(word in key for word in ("PASSWORD", "TOKEN", "SECRET", "DATABASE_URL")):
            assert value.startswith("/run/secrets/"), f"{key} holds a secret itself"
            assert value.removeprefix("/run/secrets/") in SERVICES[name]["secrets"]


def test_images_are_pinned_and_one_image_is_ours() -> None:
    images = {name: service["image"] for name, service in SERVICES.items()}
    assert all(image.partition(":")[2] not in ("", "latest") for image in images.values())
    assert {image for name, image in images.items() if name not in ("postgres", "ray-worker-gpu")} == {
        "sweep-service:0.1.0"
    }


def test_every_secret_is_made_by_the_script_and_kept_from_others(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    make = [str(ROOT / "deploy" / "make-secrets"), str(folder)]
    subprocess.run(make, check=True, capture_output=True)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} == set(COMPOSE["secrets"])
    before = {path.name: path.read_text() for path in folder.iterdir()}
    assert len(before["ray_token"]) == 64
    assert before["postgres_password"] in before["sweeps_database_url"]
    subprocess.run(make, check=True, capture_output=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == before
