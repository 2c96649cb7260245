"""Files put into a Hugging Face cache as its own client would."""

from __future__ import annotations

import hashlib
from pathlib import Path


def put(cache_dir: Path, repo: str, file: str, content: bytes, *, revision: str = "a" * 40) -> Path:
    """Put a file of `repo` there; its path. `main` stands at `revision` now."""
    folder = cache_dir / "--".join(["models", *repo.split("/")])
    blob = folder / "blobs" / hashlib.sha256(content).hexdigest()
    path = folder / "snapshots" / revision / file
    for directory in (blob.parent, path.parent, folder / "refs"):
        directory.mkdir(parents=True, exist_ok=True)
    blob.write_bytes(content)
    up = "../" * (2 + file.count("/"))
    path.unlink(missing_ok=True)
    path.symlink_to(f"{up}blobs/{blob.name}")
    (folder / "refs" / "main").write_text(revision)
    return path
