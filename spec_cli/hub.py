"""What is asked of the Hugging Face hub: the files of a repository, and their content.

The only importer of `huggingface_hub`, and only when a function is called: the import is slow, and
a cached model needs no hub. Its settings (`HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`)
hold. Its `hf_hub_download` starts from zero after a killed download and retries for half a minute
where there is no network, so files are fetched here with the parts it is made of.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from spec_cli.errors import DownloadError, ModelError
from spec_cli.leftovers import partial_blobs
from spec_cli.modelref import is_relative_path
from spec_cli.network import is_reachable
from spec_cli.store import Slot, open_partial

if TYPE_CHECKING:
    from huggingface_hub.errors import HfHubHTTPError

_ANSWER_TIMEOUT_S = 10.0
_WRONG_LENGTH = "it sent more or less than was asked for"


class HubUnreachable(DownloadError):
    """The hub does not answer, or what answers is not the hub."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository; `blob` names its content in the cache (its SHA-256)."""

    blob: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a repository, by path, at one commit."""

    commit: str
    files: Mapping[str, RemoteFile]


def cache_dir() -> Path:
    """The Hugging Face cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def endpoint() -> str:
    """The hub's address."""
    from huggingface_hub import constants

    return constants.ENDPOINT


def is_offline() -> bool:
    """Whether the user has switched the hub off with `HF_HUB_OFFLINE`."""
    from huggingface_hub import constants

    return constants.is_offline_mode()


def connection_problem() -> HubUnreachable | None:
    """Why no connection to the hub opens, found out within three seconds; None when one does."""
    return None if is_reachable(endpoint()) else _unreachable("no connection")


def list_files(repo: str, revision: str | None) -> Listing:
    """The files of `repo` at a branch or commit (None: the main branch).

    Raises DownloadError when the repository cannot be read, and HubUnreachable when the hub is
    not there.
    """
    from huggingface_hub import HfApi

    api = HfApi(endpoint=endpoint())
    try:
        with _explained(repo):
            info = api.model_info(
                repo, revision=revision, files_metadata=True, timeout=_ANSWER_TIMEOUT_S
            )
    except (ValueError, KeyError, TypeError) as error:
        # Not the JSON of a hub: the login page of a network, for example.
        raise _unreachable("what answers there is not a hub") from error
    # These become names in the cache: a commit and a blob are digits, a file stays below both.
    if not (info.sha or "").isalnum():
        raise _unreachable("what answers there is not a hub")
    files = {}
    for entry in info.siblings or []:
        blob = (entry.lfs.sha256 if entry.lfs else entry.blob_id) or ""
        if blob.isalnum() and entry.size is not None and is_relative_path(entry.rfilename):
            files[entry.rfilename] = RemoteFile(blob, entry.size)
    return Listing(str(info.sha), files)


def fetch_from_hub(slot: Slot, on_bytes: Callable[[int], None]) -> None:
    """Fetch the partial file of `slot`, whose lock is held, from where an earlier fetch ended.

    `on_bytes` is told the length reached. Raises DownloadError; what was fetched is kept.
    """
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    if slot.size_bytes > constants.MAX_HTTP_DOWNLOAD_SIZE:
        raise DownloadError(
            f"`{slot.file}` is larger than the hub sends in one piece",
            hint=f"run `hf download {slot.repo} {slot.file}`, then this command again",
        )
    url = hf_hub_url(slot.repo, slot.file, revision=slot.revision, endpoint=endpoint())

    def report(n_bytes: int) -> None:
        if n_bytes > slot.size_bytes:  # there may be no end of them
            raise _unreachable(_WRONG_LENGTH)
        on_bytes(n_bytes)

    with open_partial(slot) as partial, _explained(slot.repo):
        start = partial.seek(0, os.SEEK_END)
        if start > slot.size_bytes:
            start = partial.truncate(partial.seek(0))
        http_get(
            url,
            partial,
            resume_size=start,
            headers=build_hf_headers(),
            expected_size=slot.size_bytes,
            tqdm_class=_bar_class(report),
        )


def read_range(slot: Slot, start: int, n_bytes: int) -> bytes:
    """At most `n_bytes` of the file of `slot` from `start` on, not kept. Raises DownloadError."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hf_hub_url(slot.repo, slot.file, revision=slot.revision, endpoint=endpoint())
    end = min(start + n_bytes, slot.size_bytes)
    data = BytesIO()

    def check(n_received: int) -> None:
        if n_received > end - start:
            raise _unreachable("it sends whole files only")

    with _explained(slot.repo):
        http_get(
            url,
            data,
            headers={**build_hf_headers(), "Range": f"bytes={start}-{end - 1}"},
            expected_size=end - start,
            tqdm_class=_bar_class(check),
        )
    return data.getvalue()


def delete_files(paths: Iterable[Path]) -> None:
    """Delete files of the cache, by their paths in snapshots.

    A content that another file of the cache shares is kept. Raises ModelError, with nothing
    deleted, when the cache of a repository is damaged.
    """
    from huggingface_hub import scan_cache_dir

    wanted = {_in_cache(path) for path in paths}
    cache = scan_cache_dir(cache_dir())
    revisions = [revision for repo in cache.repos for revision in repo.revisions]
    files = [file for r in revisions for file in r.files if file.file_path in wanted]
    if missing := wanted - {file.file_path for file in files}:
        reasons = "; ".join(map(str, cache.warnings)) or "it is not listed"
        raise ModelError(f"cannot delete {min(missing)}: {reasons}", hint="delete it by hand")
    cache.delete_files(*files).execute()


def delete_empty(paths: Iterable[Path]) -> None:
    """Delete the revisions, and repositories, of which `paths` were the last files.

    A repository stays where something else of it was fetched in part.
    """
    from huggingface_hub import scan_cache_dir

    touched = {folder for path in paths for folder in _in_cache(path).parents}
    cache = scan_cache_dir(cache_dir())
    for repo in cache.repos:
        if partial_blobs(cache_dir(), repo.repo_id):
            continue
        revisions = [r for r in repo.revisions if r.snapshot_path in touched and not r.files]
        # Revisions are told apart by their names alone, which two repositories can share.
        only_here = replace(cache, repos=frozenset({repo}))
        only_here.delete_revisions(*(r.commit_hash for r in revisions)).execute()


def _in_cache(path: Path) -> Path:
    """A path in a snapshot as the hub's client gives it."""
    return path.parent.resolve() / path.name


def _bar_class(on_bytes: Callable[[int], None]) -> Any:
    class Bar:
        """The few methods of a tqdm bar that `http_get` calls."""

        def __init__(self, initial: int, **_options: object) -> None:
            self._n_bytes = 0
            self.update(initial)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *exc: object) -> None:
            pass

        def update(self, n: int) -> None:
            self._n_bytes += n
            on_bytes(self._n_bytes)

    return Bar


@contextmanager
def _explained(repo: str) -> Iterator[None]:
    """Keep `huggingface_hub` from writing to stderr, and raise its errors as DownloadError."""
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError
    from huggingface_hub.errors import HTTPError as TransportError  # type: ignore[attr-defined]

    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except HfHubHTTPError as error:
        raise _refusal(error, repo) from error
    except HFValidationError as error:
        raise DownloadError(f"`{repo}` is not the name of a repository") from error
    except TransportError as error:
        raise _unreachable(str(error) or type(error).__name__) from error
    except OSError as error:
        if error.errno is not None:
            raise  # the disk's; without a number, it is the client's word for a wrong length
        raise _unreachable(_WRONG_LENGTH) from error
    finally:
        logger.setLevel(level)


def _refusal(error: HfHubHTTPError, repo: str) -> DownloadError:
    """What the hub's error answer means, and what to do about it."""
    from huggingface_hub.errors import GatedRepoError, RevisionNotFoundError

    status = error.response.status_code
    page = f"{endpoint()}/{repo}"
    if isinstance(error, GatedRepoError) and status == 401:
        hint = f"accept its licence at {page}, then set `HF_TOKEN` to a token of that account"
        return DownloadError(f"`{repo}` is gated: it needs a token", hint=hint)
    if isinstance(error, GatedRepoError):
        hint = f"accept it at {page}, then run the command again"
        return DownloadError(
            f"`{repo}` is gated, and the account of this token has not accepted its licence",
            hint=hint,
        )
    if isinstance(error, RevisionNotFoundError):
        return DownloadError(f"`{repo}` has no such revision", hint=f"see {page}")
    if status == 401:
        hint = "check the name; for a private repository set `HF_TOKEN` to a token that may read it"
        return DownloadError(f"`{repo}` does not exist, or is private", hint=hint)
    if status == 404:
        return DownloadError(f"`{repo}` does not exist", hint=f"check the name at {page}")
    if status >= 500:
        return _unreachable(f"it answered {status}")
    return DownloadError(f"the hub answered {status} for `{repo}`", hint="try again later")


def _unreachable(reason: str) -> HubUnreachable:
    return HubUnreachable(
        f"cannot reach the hub at {endpoint()}: {reason}",
        hint="check the network, the proxy settings and `HF_ENDPOINT`, then run the command again",
    )
