"""Findings about a machine: each is said where it holds, and only there; nothing private is."""

from __future__ import annotations

from pathlib import Path

import pytest

from spec_cli.accelerator import build_hint, unused_gpu
from spec_cli.cpu import cpu_flags
from spec_cli.doctor.report import Finding, Report, Section, shortened
from spec_cli.doctor.system import (
    Load,
    disk_findings,
    environment_section,
    memory_section,
    shown_value,
    unused_instructions,
)
from spec_cli.host_memory import HostMemory
from spec_cli.llama.repacking import features, repacking
from spec_cli.render.doctor import report_lines, report_object

GB = 10**9
QUIET = Load(0.1, 4, 0)
FREE = HostMemory(8 * GB, 16 * GB)
LINE = "CPU : SSE3 = 1 | AVX2 = 1 | AVX512 = 0 | AMX_INT8 = 1 | REPACK = 1 | "


def messages(section: Section) -> list[str]:
    return [finding.message for finding in section.findings]


def test_a_quiet_machine_has_no_findings() -> None:
    assert memory_section(FREE, QUIET).findings == ()
    assert environment_section({"HF_HOME": "/x", "PATH": "/bin"}).findings == ()


@pytest.mark.parametrize(
    ("host", "load", "fragment"),
    [
        (HostMemory(GB, 16 * GB, 4 * GB), QUIET, "a cgroup limits memory to 4.0 GB of 16.0 GB"),
        (FREE, Load(0.1, 4, 3 * GB), "3.0 GB of swap is in use"),
        (FREE, Load(7.2, 4, 0), "the load average is 7.2 on 4 cores"),
    ],
)
def test_what_slows_a_machine_down_is_said(host: HostMemory, load: Load, fragment: str) -> None:
    found = memory_section(host, load)
    assert len(found.findings) == 1
    assert fragment in messages(found)[0]
    assert not found.findings[0].failed


@pytest.mark.parametrize(
    ("name", "value"),
    [("OMP_NUM_THREADS", "1"), ("OMP_THREAD_LIMIT", "1"), ("OMP_WAIT_POLICY", "ACTIVE")],
)
def test_variables_that_decide_threads_are_said_with_what_to_type(name: str, value: str) -> None:
    found = environment_section({name: value})
    assert found.rows == ((name, value),)
    assert name in messages(found)[0]
    assert name in found.findings[0].hint


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("HF_TOKEN", "hf_abc", "set"),
        ("https_proxy", "http://proxy:3128", "set"),
        ("PIP_INDEX_URL", "https://mirror.example/simple", "set"),
        ("HF_ENDPOINT", "https://me:pw@hub.example", "set"),
        ("HF_ENDPOINT", "https://hub.example", "https://hub.example"),
        ("CUDA_VISIBLE_DEVICES", "0,1", "0,1"),
        ("SPEC_CLI_DRAFT_TOKENS", "4", "4"),
        ("SPEC_CLI_MAX_TOKENS", "256", "256"),
    ],
)
def test_secrets_are_shown_as_set(name: str, value: str, shown: str) -> None:
    assert shown_value(name, value) == shown
    assert environment_section({name: value}).rows == ((name, shown),)


def test_variables_that_do_not_matter_are_not_shown() -> None:
    assert environment_section({"PATH": "/bin", "AWS_SECRET_KEY": "x", "SHELL": "sh"}).rows == ()


def test_a_disk_that_is_nearly_full_is_said() -> None:
    found = list(disk_findings({Path("/cache"): GB, Path("/state"): 100 * GB}))
    assert [finding.message for finding in found] == ["only 1.0 GB is free on the disk of /cache"]


def test_instructions_that_the_build_leaves_unused_are_named() -> None:
    cpu = frozenset({"avx2", "avx512f", "amx_int8", "sse"})
    (finding,) = unused_instructions(cpu, features(LINE))
    assert "the CPU has AVX512," in finding.message
    assert list(unused_instructions(frozenset({"avx2"}), features(LINE))) == []


def test_the_kinds_that_are_rearranged_follow_the_instructions() -> None:
    assert repacking("CPU : SSE3 = 1 | ").matrices == {}
    assert repacking("CPU : AVX2 = 1 | ").matrices == dict.fromkeys((2, 12, 20, 39), 1.0)
    assert set(repacking(LINE).matrices) == {2, 12, 20, 39} | {2, 3, 8, 12, 13, 14, 23}
    assert repacking(LINE).matrices[12] == 148 / 144  # AMX comes before AVX2
    assert repacking(LINE).experts == repacking("CPU : AVX2 = 1 | ").experts
    assert 14 in repacking("CPU : NEON = 1 | DOTPROD = 1 | ").matrices


def test_flags_are_those_of_the_first_cpu(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nflags\t\t: fpu avx2\n\nflags : other\n")
    assert cpu_flags(path) == {"fpu", "avx2"}
    assert cpu_flags(tmp_path / "none") == frozenset()


def test_the_home_directory_is_shortened_everywhere() -> None:
    finding = Finding("see /home/me/x", "rm /home/me/x", failed=True)
    report = Report((Section("files", (("cache", "/home/me/cache"),), (finding,)),))
    changed = report.mapped(shortened(Path("/home/me")))
    assert changed.sections[0].rows == (("cache", "~/cache"),)
    assert changed.failed == (Finding("see ~/x", "rm ~/x", failed=True),)
    assert shortened(Path("/"))("/etc") == "/etc"


def test_another_directory_with_the_name_of_the_home_directory_in_it_is_left_alone() -> None:
    change = shortened(Path("/home/me"))
    others = "/home/meg/x, /home/me-too, /mnt/home/me"
    assert change(f"{others}, /home/me, HOME=/home/me/y") == f"{others}, ~, HOME=~/y"


def test_a_value_of_several_lines_is_shown_as_one() -> None:
    lines = report_lines(Report((Section("environment", (("HF_HOME", "/x\nFAILED: y"),)),)))
    assert lines[1] == "  HF_HOME  /x FAILED: y"


def test_what_fails_comes_first() -> None:
    note, failure = Finding("a", "b"), Finding("c", "d", failed=True)
    assert Report((Section("x", (), (note,)), Section("y", (), (failure,)))).findings == (
        failure,
        note,
    )


@pytest.mark.parametrize(
    ("trace", "system", "gpu", "word"),
    [
        ("proc/driver/nvidia", "Linux", "an NVIDIA GPU", "GGML_CUDA=ON"),
        ("dev/kfd", "Linux", "an AMD GPU", "GGML_HIP=ON"),
        ("nothing", "Darwin", "Apple silicon's GPU", "SPEC_CLI_BACKEND=metal"),
        ("nothing", "Linux", None, ""),
    ],
)
def test_a_gpu_is_known_by_what_its_driver_leaves(
    tmp_path: Path, trace: str, system: str, gpu: str | None, word: str
) -> None:
    (tmp_path / trace).mkdir(parents=True)
    assert unused_gpu(tmp_path, system, "arm64") == gpu
    assert gpu is None or word in build_hint(gpu)


def test_a_finding_that_several_sections_have_is_told_once() -> None:
    note = Finding("a", None)
    report = Report((Section("x", (), (note,)), Section("", (), (note,))))
    assert report.findings == (note,)
    assert report_lines(report) == ["findings", "  note: a"]
    assert report_object(report)["findings"] == [{"message": "a", "hint": None, "failed": False}]


def test_a_report_without_findings_says_so() -> None:
    report = Report((Section("versions", (("a", "1"), ("long", "2\x1b"))),))
    lines = report_lines(report)
    assert lines[:2] == ["versions", "  a     1"]
    assert "\x1b" not in lines[2]
    assert lines[-1] == "nothing is wrong"
