"""A pair that does not fit is refused in one sentence with what would fit; layers are settled."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from spec_cli import fitter
from spec_cli.errors import ExitCode, ResourceError
from spec_cli.events import Notice
from spec_cli.fitter import Fitter, Offload
from spec_cli.fitting import first_context, site
from spec_cli.gguf import Header, read_header
from spec_cli.host_memory import HostMemory
from spec_cli.llama.devices import Device
from spec_cli.llama.repacking import Repacking
from spec_cli.memory import HOST
from spec_cli.settings import ALL_LAYERS, MIN_AUTO_CTX, SessionSettings
from tests.tiny_gguf import write_tiny_model

GB = 10**9
PLENTY = HostMemory(64 * GB, 64 * GB)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Header:
    path = write_tiny_model(tmp_path_factory.mktemp("m") / "target.gguf", n_layer=3)
    return read_header(path)


@pytest.fixture(scope="module")
def draft(tmp_path_factory: pytest.TempPathFactory) -> Header:
    return read_header(write_tiny_model(tmp_path_factory.mktemp("m") / "draft.gguf", n_layer=1))


def large(header: Header, n_times: int) -> Header:
    """The same model with weights `n_times` as large."""
    grown = [replace(t, shape=(t.shape[0], *t.shape[1:], n_times)) for t in header.tensors]
    return replace(header, tensors=tuple(grown))


def gpu(free_bytes: int, name: str = "CUDA0") -> Device:
    return Device(name, "a GPU", "gpu", free_bytes, 2 * free_bytes, handle=1)


class Desk:
    """A fitter on a machine made up for it."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        settings: SessionSettings,
        *,
        host: HostMemory = PLENTY,
        gpus: Sequence[Device] = (),
    ) -> None:
        monkeypatch.setattr(fitter, "offload_devices", lambda: list(gpus))
        self.notices: list[Notice] = []
        self.fitter = Fitter(settings, host=lambda: host, notify=self.notices.append)


def test_a_pair_that_fits_is_no_news(
    monkeypatch: pytest.MonkeyPatch, target: Header, draft: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings(), gpus=[gpu(8 * GB)])
    desk.fitter.fit(target, draft, 512)
    assert desk.notices == []
    assert desk.fitter.target.n_layers == desk.fitter.draft.n_layers == ALL_LAYERS
    assert desk.fitter.target.names == ("CUDA0",)


def test_without_a_device_nothing_is_settled_that_measurements_hang_on(
    monkeypatch: pytest.MonkeyPatch, target: Header, draft: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings())
    desk.fitter.fit(target, draft, 512)
    assert desk.fitter.target == desk.fitter.draft == Offload((), ALL_LAYERS)


def test_a_context_that_no_machine_holds_is_refused_with_one_that_fits(
    monkeypatch: pytest.MonkeyPatch, target: Header, draft: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings(), host=HostMemory(4 * GB, 16 * GB))
    with pytest.raises(ResourceError) as caught:
        desk.fitter.fit(target, draft, 2_000_000_000)
    error = caught.value
    assert error.exit_code == ExitCode.RESOURCE
    assert error.message.startswith("the two models need ")
    assert "KV cache 76" in error.message and "of RAM" in error.message
    assert error.message.endswith("but only 3.9 GB can be used")
    assert error.hint is not None
    fitting = int(error.hint.partition("(`-c ")[2].partition("` fits")[0])
    desk.fitter.fit(target, draft, fitting)
    with pytest.raises(ResourceError):
        desk.fitter.fit(target, draft, fitting + 256)
    assert "a smaller quantisation or `--no-draft`" in error.hint
    assert "--gpu-layers" not in error.hint


def test_layers_that_were_asked_for_and_have_no_room_are_refused(
    monkeypatch: pytest.MonkeyPatch, target: Header
) -> None:
    settings = SessionSettings(n_gpu_layers=ALL_LAYERS)
    desk = Desk(monkeypatch, settings, gpus=[gpu(GB)])
    with pytest.raises(ResourceError, match=r"the model needs .* of CUDA0 ") as caught:
        desk.fitter.fit(large(target, 5000), None, 512)
    assert caught.value.hint == "use fewer `--gpu-layers` or a smaller quantisation"


def test_without_room_for_all_layers_as_many_as_fit_are_offloaded_and_a_notice_says_so(
    monkeypatch: pytest.MonkeyPatch, target: Header, draft: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings(), gpus=[gpu(GB)])
    desk.fitter.fit(large(target, 2500), draft, 512)
    assert 0 < desk.fitter.target.n_layers < 4
    assert desk.fitter.draft.n_layers in (ALL_LAYERS, 0)
    first = desk.notices[0]
    assert re.match(
        rf"{desk.fitter.target.n_layers} of the target's 4 layers fits? on CUDA0; ", first.message
    )
    assert "`--gpu-layers N`" in (first.hint or "")


def test_a_device_without_room_for_one_layer_is_not_used(
    monkeypatch: pytest.MonkeyPatch, target: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings(), gpus=[gpu(GB // 10)])
    desk.fitter.fit(target, None, 512)
    assert desk.fitter.target.used == ()
    assert [n.message for n in desk.notices] == [
        "no layer of the target fits on CUDA0; the CPU computes all of them"
    ]


def test_a_later_context_is_asked_about_with_the_layers_that_were_settled(
    monkeypatch: pytest.MonkeyPatch, target: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings(), gpus=[gpu(GB)])
    desk.fitter.fit(target, None, 512)
    with pytest.raises(ResourceError, match="CUDA0"):
        desk.fitter.fit(target, None, 4_000_000)
    assert desk.fitter.target.n_layers == ALL_LAYERS


def test_weights_that_are_read_again_and_again_are_a_warning_said_once(
    monkeypatch: pytest.MonkeyPatch, target: Header
) -> None:
    desk = Desk(monkeypatch, SessionSettings(), host=HostMemory(GB, GB))
    for n_ctx in (512, 1024):
        desk.fitter.fit(large(target, 5000), None, n_ctx)
    assert [(n.level, "again and again" in n.message) for n in desk.notices] == [("warning", True)]


def test_a_device_that_reports_no_memory_computes_in_ram() -> None:
    device = replace(gpu(0), total_bytes=0)
    rooms = site(HostMemory(5, 9, 7), [device], Repacking({}, {})).rooms
    assert [(r.name, r.free_bytes, r.total_bytes) for r in rooms] == [(HOST, 5, 7), ("CUDA0", 5, 7)]
    assert rooms[1].shares_host


def test_an_automatic_context_is_planned_with_its_least_size(target: Header) -> None:
    assert first_context(SessionSettings(), target) == 512
    assert first_context(SessionSettings(n_ctx=77), target) == 77
    trained = replace(target, context_length=10**6)
    assert first_context(SessionSettings(), trained) == MIN_AUTO_CTX


def test_a_device_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResourceError, match="no device `CUDA7`"):
        Desk(monkeypatch, SessionSettings(device="CUDA7"))
