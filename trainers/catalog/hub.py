"""The Hugging Face Hub: one repository at one commit, fetched file by file, each resumed where a fetch broke off.

The Hub's own client resumes only within one process; here the part of a file that has arrived is kept for the next.
"""

import errno
import hashlib
import re
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from trainers.catalog.new_entry import Reporter, about, copied
from trainers.errors import ConfigError

if TYPE_CHECKING:
    from huggingface_hub import RepoFile

RepositoryKind = Literal["model", "dataset"]
_REFERENCE: Final = re.compile(r"(?P<name>[\w.-]+(/[\w.-]+)?)(@(?P<revision>[^@\s:]+))?")
_DEFAULT_REVISION: Final = "main"
_PART: Final = ".part"
_PARTIAL: Final = 206
_TRIES: Final = 4
_PAUSE_S: Final = 1.0


class HubError(ConfigError):
    """The Hub cannot be read now, or not by this user; what has come stays, and the same command goes on."""


class Repository:
    """A repository of the Hub at one commit; the user's `token` appears in no message.

    Args:
        reference: OWNER/NAME@REVISION.
    Raises: ConfigError; HubError.
    """

    def __init__(self, kind: RepositoryKind, reference: str, token: str | None, reporter: Reporter) -> None:
        name, revision = parse_reference(reference)
        with about(reference), hub_errors(kind, name, revision, token):
            from huggingface_hub import HfApi, RepoFile

            api = HfApi(token=token or False)
            commit = str(api.repo_info(name, repo_type=kind, revision=revision or _DEFAULT_REVISION).sha)
            if revision != commit:
                reporter.say(f"{name}: {revision or _DEFAULT_REVISION} is commit {commit}")
            tree = api.list_repo_tree(name, repo_type=kind, revision=commit, recursive=True)
            files = [item for item in tree if isinstance(item, RepoFile)]
        self.kind: RepositoryKind = kind
        self.name, self.commit, self._token, self._reporter = name, commit, token, reporter
        # none that would be written outside of the folder
        inside = [file for file in files if not Path(file.path).is_absolute() and ".." not in Path(file.path).parts]
        self.files = {file.path: file for file in inside}

    def __str__(self) -> str:
        return f"{self.name}@{self.commit}"

    def size(self, paths: Sequence[str]) -> int:
        """Add up the bytes of some of its files."""
        return sum(self.files[path].size for path in paths)

    def fetch(self, paths: Sequence[str], folder: Path) -> None:
        """Fetch files into a folder; parts that have arrived before are not fetched again. Raises: HubError."""
        done, total = 0, self.size(paths)
        for path in paths:
            target = folder / path
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                self._fetch_one(self.files[path], target, done, total)
            done += self.files[path].size

    def _fetch_one(self, file: "RepoFile", target: Path, done: int, total: int) -> None:
        def progress(bytes_of_file: int) -> None:
            self._reporter.progress(file.path, done + bytes_of_file, total)

        with hub_errors(self.kind, self.name, self.commit, self._token):
            from huggingface_hub import hf_hub_url
            from huggingface_hub.utils import build_hf_headers

            url = hf_hub_url(self.name, file.path, repo_type=self.kind, revision=self.commit)
            headers = build_hf_headers(token=self._token or False) | {"Accept-Encoding": "identity"}
            part = target.with_name(target.name + _PART)
            if part.exists() and part.stat().st_size > file.size:
                part.unlink()
            with part.open("ab") as opened:
                _stream(url, headers, opened, file.size, progress)
            part.rename(target)

    def verified(self, paths: Sequence[str], folder: Path) -> dict[str, str]:
        """Return the sha256 of each file, once all are what the Hub says they are; a file that is not is removed.

        Raises: HubError.
        """
        done, total, digests, wrong = 0, self.size(paths), dict[str, str](), list[str]()
        for path in paths:
            file = self.files[path]
            digests[path] = copied(folder / path, None, self._reporter, done, total)
            done += file.size
            right = digests[path] == file.lfs.sha256 if file.lfs else _git_hash(folder / path) == file.blob_id
            if not right:
                (folder / path).unlink()
                wrong.append(path)
        if wrong:
            raise HubError(
                f"{', '.join(wrong)}: what came is not what the Hub says it holds (another hash), and was removed; the "
                "same command fetches it again"
            )
        return digests


def _stream(
    url: str, headers: Mapping[str, str], file: BufferedWriter, size: int, progress: Callable[[int], None]
) -> None:
    """Append to a file what it lacks; reconnect after every break, as long as something arrives."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, HTTPError
    from huggingface_hub.utils import get_session, hf_raise_for_status

    failures, timeout = 0, constants.HF_HUB_DOWNLOAD_TIMEOUT
    while (begin := file.tell()) < size:
        range_headers = {**headers, "Range": f"bytes={begin}-"} if begin else headers
        try:
            with get_session().stream(
                "GET", url, headers=range_headers, timeout=timeout, follow_redirects=True
            ) as response:
                hf_raise_for_status(response)
                if response.status_code != _PARTIAL:  # the whole file, whatever was asked for
                    file.seek(file.truncate(0))  # else `tell` goes on from where it was
                for chunk in response.iter_bytes():
                    file.write(chunk)
                    progress(file.tell())
        except HfHubHTTPError:
            raise
        except HTTPError:  # of the HTTP client
            failures = 0 if file.tell() > begin else failures + 1
            if failures > _TRIES:
                raise
            time.sleep(_PAUSE_S)
    if file.tell() > size:
        file.truncate(0)
        raise OSError("more came than the Hub lists")


def parse_reference(text: str) -> tuple[str, str | None]:
    """Parse OWNER/NAME@REVISION into repository and revision, which is None if it is missing.

    Raises: ConfigError, if it has another form.
    """
    if not (match := _REFERENCE.fullmatch(text)):
        raise ConfigError(f"{text!r} is neither OWNER/NAME@REVISION of the Hub nor a file or directory of this machine")
    return match["name"], match["revision"]


def hub_token(file: Path | None) -> str | None:
    """Return the user's token for the Hub: from a file, else from HF_TOKEN, else where `hf auth login` put it.

    Raises: ConfigError, if the file cannot be read.
    """
    if file is None:
        from huggingface_hub import get_token

        return get_token()
    try:
        return file.expanduser().read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"SWEEPS_HUB_TOKEN_FILE: {file} cannot be read") from error


@contextmanager
def hub_errors(kind: RepositoryKind, name: str, revision: str | None, token: str | None) -> Generator[None]:
    """Turn what the hub's client raises into sentences with a remedy. Raises: HubError."""
    from huggingface_hub import constants, errors

    page = f"{constants.ENDPOINT}/{'datasets/' if kind == 'dataset' else ''}{name}"
    who = "with the account of your token" if token else "and set HF_TOKEN to a token of your account"
    again = "what has come is kept, and the same command goes on"
    try:
        yield
    except errors.OfflineModeIsEnabled:
        message = "HF_HUB_OFFLINE is set, so nothing is fetched; unset it, or add a folder that was copied here"
    except errors.HFValidationError as error:
        message = f"no repository can have this name: {error}"
    except errors.GatedRepoError:
        message = f"access must be asked for: accept its licence at {page} {who}"
    except errors.RevisionNotFoundError:
        message = f"it has no revision {revision}; {page}/commits/main lists what there is"
    except errors.RepositoryNotFoundError:
        other = "your token may not read it" if token else "it is private: set HF_TOKEN to a token that may read it"
        message = f"there is no such {kind} at {constants.ENDPOINT}, or {other}"
    except errors.EntryNotFoundError:
        message = f"a file that {constants.ENDPOINT} lists is not there; ask again later"
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        message = {
            401: "the Hub does not know the token; set HF_TOKEN to a valid one, or unset it (hf auth logout)",
            404: f"there is no such {kind} at {constants.ENDPOINT}",
            403: f"the token may not read it; allow that in the token's settings, or ask for access at {page}",
            429: f"the Hub asks for fewer requests; wait some minutes: {again}",
        }.get(status, f"the Hub answers {status}; ask again later: {again}")
    except errors.HTTPError as error:  # of its HTTP client
        message = f"the connection to {constants.ENDPOINT} fails ({type(error).__name__}); {again}"
    except OSError as error:
        if error.errno is not None and error.errno != errno.ENOSPC:
            raise
        message = f"the disk is full; {again}" if error.errno else f"the connection broke off; {again}"
    else:
        return
    raise HubError(message)


def _git_hash(path: Path) -> str:
    """Compute the hash by which git names the file's content."""
    content = path.read_bytes()
    return hashlib.sha1(f"blob {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()
