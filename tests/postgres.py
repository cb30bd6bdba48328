"""A PostgreSQL for tests: started where its programs are installed, unless SWEEPS_TEST_POSTGRES_URL names one."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import create_engine, text

from tests.sweep_stack import unused_port
from tests.waiting import PATIENT_S, wait_until

GIVEN_URL = os.environ.get("SWEEPS_TEST_POSTGRES_URL", "")


def programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`; None if they are not installed."""
    in_path = shutil.which("initdb")
    installed = [Path(in_path).resolve().parent] if in_path else []
    installed += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in installed if (folder / "postgres").exists()), None)


AVAILABLE = bool(GIVEN_URL or programs())


@contextmanager
def postgres() -> Iterator[str]:
    """Yield the URL of a server with an empty database and a password; the server ends with the block."""
    if GIVEN_URL:
        yield GIVEN_URL
        return
    binaries, port, password = programs(), unused_port(), secrets.token_hex(8)
    assert binaries is not None
    with tempfile.TemporaryDirectory(prefix="sweeps-postgres-", ignore_cleanup_errors=True) as folder:
        home, secret = Path(folder), Path(folder, "password")
        secret.write_text(password)
        user = None  # PostgreSQL refuses to run as root
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            user = nobody.pw_uid
            for path in (home, secret):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        initdb = [str(binaries / "initdb"), "-D", str(home / "data"), "-U", "sweeps", "--pwfile", str(secret)]
        initdb += ["--auth=scram-sha-256", "--no-sync", "--no-locale", "--encoding=UTF8"]
        subprocess.run(initdb, user=user, cwd=home, check=True, capture_output=True)
        serve = [str(binaries / "postgres"), "-D", str(home / "data"), "-k", str(home), "-p", str(port)]
        serve += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(serve, user=user, cwd=home, stdout=log, stderr=log)
        try:
            place = f"sweeps:{password}@127.0.0.1:{port}/postgres"
            wait_until("PostgreSQL answers", lambda: server.poll() is not None or _answers(f"postgresql://{place}"))
            assert server.poll() is None, (home / "log").read_text()
            yield f"postgresql+psycopg://{place}"
        finally:
            server.send_signal(
                signal.SIGINT
            )  # ends at once; after SIGTERM it waits for connections that a failed test left
            server.wait(PATIENT_S)


def emptied(url: str) -> str:
    """Remove everything from a database and return its URL."""
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    return url


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
