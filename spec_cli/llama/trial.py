"""A process that loads a target in one way and prints what the width probe finds, as JSON.

    python -m spec_cli.llama.trial ORDER

Some kernels are chosen by the environment, and once chosen stay so for the life of a process.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spec_cli.errors import SpecError
from spec_cli.llama.devices import find_device
from spec_cli.llama.library import library
from spec_cli.llama.model import LlamaModel, LoadSettings
from spec_cli.llama.probe import Prober
from spec_cli.spec.costs import TARGET_WIDTHS
from spec_cli.spec.exactness import Kernels


def run_trial(order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Survey the model at `order["path"]`, loaded as `order["kernels"]` say."""
    kernels = Kernels(**order["kernels"])
    library().use_tiled(kernels.tiled)
    devices = tuple(device for name in order["devices"] if (device := find_device(name)))
    load = LoadSettings(order["n_gpu_layers"], devices, kernels.repack)
    with LlamaModel(Path(order["path"]), load) as model:
        prober = Prober(
            model,
            TARGET_WIDTHS,
            n_threads=order["n_threads"],
            clock=time.perf_counter,
            cancelled=lambda: False,
        )
        return [asdict(found) for found in prober.survey(kernels)]


def main() -> None:
    """Carry out the order in the first argument; on failure say why on stderr."""
    try:
        found = run_trial(json.loads(sys.argv[1]))
    except SpecError as error:
        sys.exit(error.message)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
