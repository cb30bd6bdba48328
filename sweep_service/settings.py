"""The service's settings: environment variables `SWEEPS_…`, with defaults for one machine."""

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from trainers.process.environment import CACHE, HOME

_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_HUB_SECRETS: Final = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "SWEEPS_HUB_TOKEN_FILE")
_SERVICE_SECRETS: Final = (
    "SWEEPS_DATABASE_URL",
    "SWEEPS_MLFLOW_LOGIN",
    "MLFLOW_TRACKING_",
    "RAY_AUTH_TOKEN",
    "PGPASSWORD",
    "PGPASSFILE",
)
"""Beginnings of the names of variables that sign in to the database, to MLflow and to Ray."""
SECRET_FIELDS: Final = ("database_url", "mlflow_url", "mlflow_public_url", "mlflow_login")
"""Settings that may hold a password; no error shows their value."""


class Settings(BaseSettings):
    """Addresses and folders of one installation.

    A variable's `_FILE` twin (`SWEEPS_DATABASE_URL_FILE`) names a file that holds the value: for secrets.
    """

    model_config = SettingsConfigDict(env_prefix="SWEEPS_", frozen=True, extra="ignore")

    home: Path = Field(default=Path(HOME), description="Data folder of the embedded stack.")
    database_url: str = Field(default="", description="SQLAlchemy URL; default: SQLite under home.")
    database_url_file: Path | None = None
    storage: Path = Field(default=Path(), description="Trials' events and checkpoints; shared by all Ray nodes.")
    cache: Path = Field(default=Path(), description="The catalog: models, datasets, benchmarks; warm-started models.")
    token_file: Path = Field(default=Path(), description="The bearer token; made at the first `serve`.")
    hub_token_file: Path | None = Field(
        default=None, description="The token for the Hugging Face Hub; default: HF_TOKEN, else the hub's own file."
    )
    ray_address: str = Field(default="", description="host:port of the Ray head.")
    ray_temp_dir: Path | None = Field(
        default=None, description="Parent of Ray's folder; a short path, because sockets lie in it."
    )
    mlflow_url: str = Field(default="", description="MLflow server; empty: nothing is projected.")
    mlflow_public_url: str = Field(default="", description="Address of MLflow for people, if not mlflow_url.")
    mlflow_login: SecretStr = Field(default=SecretStr(""), description="user:password, as given in mlflow_url.")
    mlflow_token_file: Path | None = Field(
        default=None, description="The secret of an MLflow behind our own door, as `sweeps serve` and compose start it."
    )
    commit: str = Field(default="", description="Commit of this code, for reports; default: as .git has it, if there.")
    turn_minutes: float = Field(
        default=30,
        gt=0,
        description="Minutes for which a trial runs at least before it is paused for another sweep's turn; inf: never.",
    )
    host: str = "127.0.0.1"
    port: int = 8080
    url: str = Field(default="", description="Address of the API for clients; default: http://host:port.")
    trusted_users: str = Field(
        default="",
        description="Further users of this machine, by name or number, to whose servers secrets are sent: ann,999",
    )
    public_hosts: str = Field(
        default="", description="Further names by which people reach the API: sweeps.lab,sweeps.example.org"
    )

    trainer_commands: str = Field(
        default="",
        description="Programs that sweeps may name as their trainers: beginnings of commands with commas between them, "
        "or any; empty: none. Each runs as this user, for whoever may submit a sweep.",
    )

    @field_validator("trainer_commands")
    @classmethod
    def _commands(cls, value: str) -> str:
        try:
            allowed_commands(value)
        except ValueError as error:
            raise ValueError(
                f"it cannot be read ({error}); write any, or commands such as python3 /opt/trainer.py, with commas "
                "between them and quotes as in a shell"
            ) from None
        return value

    @field_validator("public_hosts")
    @classmethod
    def _host_names(cls, value: str) -> str:
        for name in filter(None, value.split(",")):
            if not _HOST_NAME.fullmatch(name.strip()):
                raise ValueError(f"{name.strip()!r} is no host name; give names alone, with commas between them")
        return value

    @field_validator("mlflow_url", "mlflow_public_url", "url")
    @classmethod
    def _web_address(cls, value: str) -> str:
        try:
            parts = urlsplit(value)
            readable = parts.scheme in ("http", "https") and parts.hostname is not None and parts.port != 0
        except ValueError:
            readable = False
        if value and not readable:
            raise ValueError(
                "it is not an address that can be read; write http://host:port, and %2F for a slash in a password"
            )
        return value

    @field_validator("database_url")
    @classmethod
    def _database_address(cls, value: str) -> str:
        if not value:
            return value
        from sqlalchemy import make_url  # a tenth of a second, which commands of clients need not spend
        from sqlalchemy.exc import ArgumentError

        try:
            readable = make_url(value).get_backend_name() in ("sqlite", "postgresql")
        except (ArgumentError, ValueError):
            readable = False
        if not readable:
            raise ValueError(
                "it is not an address of SQLite or PostgreSQL that can be read; write sqlite:////path/sweeps.db or "
                "postgresql+psycopg://user:password@host:5432/name"
            )
        return value

    @model_validator(mode="before")
    @classmethod
    def _read_files(cls, values: dict[str, object]) -> dict[str, object]:
        path, given = values.get("database_url_file"), values.get("database_url")
        if not path:
            return values
        try:
            url = Path(str(path)).read_text().strip()
        except OSError as error:
            raise ValueError(f"SWEEPS_DATABASE_URL_FILE names {path}, which cannot be read: {error.strerror}") from None
        if given and given != url:
            raise ValueError(
                f"SWEEPS_DATABASE_URL is not what SWEEPS_DATABASE_URL_FILE has ({path}); unset one of them"
            )
        return values | {"database_url": url}

    @model_validator(mode="after")
    def _defaults(self) -> Self:
        home = self.home.expanduser().absolute()
        mlflow_url, login = _without_login(self.mlflow_url)
        derived = {
            "home": home,
            "database_url": self.database_url or f"sqlite:///{home / 'sweeps.db'}",
            "storage": (self.storage if self.storage != Path() else home / "storage").expanduser().absolute(),
            "cache": (self.cache if self.cache != Path() else home / CACHE).expanduser().absolute(),
            "token_file": (self.token_file if self.token_file != Path() else home / "token").expanduser(),
            "url": self.url or f"http://{_reachable(self.host)}:{self.port}",
            "mlflow_url": mlflow_url,
            "mlflow_login": self.mlflow_login if not login else SecretStr(login),
            "mlflow_public_url": _without_login(self.mlflow_public_url)[0] or mlflow_url,
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)  # frozen for everyone else: derived once, at construction
        return self

    def environment(self) -> dict[str, str]:
        """Return the variables that give a child process these same settings."""
        read_by_child = {"database_url"} if self.database_url_file else set[str]()
        values = self.model_dump(mode="json", exclude_none=True, exclude={"hub_token_file", *read_by_child})
        values["mlflow_login"] = self.mlflow_login.get_secret_value()
        return {f"SWEEPS_{name.upper()}": str(value) for name, value in values.items() if value != ""}

    @property
    def trusted(self) -> list[str]:
        """The users that `trusted_users` names."""
        return [name.strip() for name in self.trusted_users.split(",") if name.strip()]

    @property
    def mlflow_links(self) -> str:
        """Target of links to MLflow: our page that opens its door, or MLflow itself."""
        return f"{self.url}/mlflow" if self.mlflow_url and self.mlflow_token_file else self.mlflow_public_url


def as_served(settings: Settings) -> Settings:
    """Return settings whose open addresses are those of `<home>/address.json`, which `sweeps serve` writes."""
    path = settings.home / "address.json"
    served = json.loads(path.read_text()) if path.exists() else {}
    unset = {name: value for name, value in served.items() if name not in settings.model_fields_set}
    if "mlflow_token_file" in unset:
        unset["mlflow_token_file"] = Path(unset["mlflow_token_file"])
    return settings.model_copy(update=unset)


def misspelt(variables: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each variable that is no setting, but nearly has the name of one."""
    for name in sorted(variables):
        prefix, _, field = name.lower().partition("_")
        if prefix == "sweeps" and field not in Settings.model_fields:
            for meant in get_close_matches(field, Settings.model_fields, 1):
                yield f"{name} has no effect: it is no setting; SWEEPS_{meant.upper()} may be meant"


def unused_by_client(settings: Settings, url: str) -> Iterator[str]:
    """Yield a sentence for each part of an address in the environment that a client of `url` does not use."""
    used = urlsplit(url)
    asked = {"host": urlsplit(f"//{_reachable(settings.host)}").hostname, "port": settings.port}
    because = "SWEEPS_URL names" if "url" in settings.model_fields_set else f"`sweeps serve` of {settings.home} is"
    for field in [field for field in asked if field in settings.model_fields_set]:
        if asked[field] != (used.hostname if field == "host" else used.port):
            variable = f"SWEEPS_{field.upper()}={getattr(settings, field)}"
            yield f"{variable} has no effect here: {because} {url}; set SWEEPS_URL to ask another server"


def allowed_commands(text: str) -> list[tuple[str, ...]] | None:
    """Read `trainer_commands`: the words with which a command may begin; None for any command.

    Raises: ValueError, if a quote is not closed.
    """
    if text.strip() == "any":
        return None
    return [tuple(words) for part in text.split(",") if (words := shlex.split(part))]


def may_run(command: Sequence[str], trainer_commands: str) -> bool:
    """True if sweeps may name this command: if it begins with one of `trainer_commands`, word by word."""
    allowed = allowed_commands(trainer_commands)
    return allowed is None or any(tuple(command[: len(words)]) == words for words in allowed)


def without_hub_tokens(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables without tokens for the Hub, which only `sweeps … add` needs."""
    return {name: value for name, value in environment.items() if name not in _HUB_SECRETS}


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a trainer may see: it signs in nowhere."""
    return {
        name: value for name, value in without_hub_tokens(environment).items() if not name.startswith(_SERVICE_SECRETS)
    }


def _without_login(url: str) -> tuple[str, str]:
    """Split a URL into the part that may be shown, and `user:password` or nothing."""
    parts = urlsplit(url)
    login, _, place = parts.netloc.rpartition("@")
    return parts._replace(netloc=place).geturl(), unquote(login)


def _reachable(host: str) -> str:
    """Return the name, as written in URLs, by which this machine reaches a server that listens on `host`."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{name}]" if ":" in name else name
