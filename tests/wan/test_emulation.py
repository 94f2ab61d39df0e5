"""Emulated networks: bytes pass, and hosts end with their lab. Speed is not tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.ground import REPOSITORY, Ground, MissingProgram
from harness.waiting import until

LIMIT = 120.0

SERVER = """
import socket
with socket.create_server(("", 7000)) as listener:
    print("listening", flush=True)
    connection, _ = listener.accept()
    with connection:
        while piece := connection.recv(65536):
            connection.sendall(piece)
"""

CLIENT = """
import json, os, socket, subprocess, sys, threading
wan, server, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
lab = json.load(open(os.environ["FOREBAY_WAN"]))
_, end = lab["paths"][0]["ends"]
command = [wan, "in", end["host"], "--", sys.executable, "-c", server]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as far:
    assert far.stdout.readline() == "listening\\n"
    sent, received = os.urandom(size), bytearray()
    with socket.create_connection((end["address"], 7000), timeout=60) as connection:
        def send():
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        while piece := connection.recv(65536):
            received += piece
        sender.join()
    assert received == sent
    assert far.wait(60) == 0
print("came back")
"""

HELD = "import os, time; print(os.getpid(), flush=True); time.sleep(3600)"


def is_permitted() -> bool:
    """Whether hosts can be made here. Where they cannot, each test sees to it that this is said."""
    made = subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False)
    return made.returncode == 0 and os.access("/dev/net/tun", os.R_OK | os.W_OK)


PERMITTED = is_permitted()


def wan() -> Path:
    """The emulator's program, in the directory of the benchmark."""
    benchmark = Path(os.environ.get("FOREBAY_BENCH", REPOSITORY / "target" / "release" / "forebay-bench"))
    built = benchmark.with_name("forebay-wan").absolute()
    if not built.is_file():
        raise MissingProgram(f"{built} does not exist: run `cargo build --release -p forebay-bench`")
    return built


def run(*arguments: str | Path, wrapper: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*wrapper, wan(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, stdin=subprocess.DEVNULL)


def assert_refused(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1
    assert "takes root" in done.stderr or "/dev/net/tun" in done.stderr, done.stderr


@pytest.mark.parametrize("path", ["client:far=local", "client:far=local,rtt_ms=2,jitter_ms=1,loss=0.01"])
def test_bytes_go_there_and_back(path: str) -> None:
    done = run("up", "--path", path, "--", sys.executable, "-c", CLIENT, wan(), SERVER, "2000000")
    if not PERMITTED:
        assert_refused(done)
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout == "came back\n"


def test_a_lab_of_several_paths_is_described_for_other_programs(ground: Ground) -> None:
    directory = ground.directory("lab")
    (directory / "lab.toml").write_text(
        "[[path]]\nends = ['client', 'cache']\npreset = 'local'\n"
        "[[path]]\nends = ['cache', 'origin']\npreset = 'BNL'\nbuffer = '1MiB'\n"
    )
    lab_file = directory / "lab.json"
    arguments: list[str | Path] = ["up", "--file", directory / "lab.toml", "--json", lab_file, "--in", "cache", "--"]
    done = run(*arguments, "sh", "-c", f"cat {lab_file}; ip -o -4 address; exit 7")
    if not PERMITTED:
        assert_refused(done)
        return
    assert done.returncode == 7, done.stderr
    lab: dict[str, Any]
    lab, end = json.JSONDecoder().raw_decode(done.stdout)
    assert set(lab["hosts"]) == {"client", "cache", "origin"}
    near, far = lab["paths"]
    assert (near["rtt_ms"], near["mbit"], near["preset"]) == (0.2, 830.0, "local")
    assert (far["rtt_ms"], far["mbit"], far["buffer_bytes"]) == (95.0, 137.0, 1 << 20)
    addresses = [near["ends"][1]["address"], far["ends"][0]["address"]]
    assert all(f" {address}/32 " in done.stdout[end:] for address in addresses)
    assert not lab_file.exists()


@contextmanager
def held_lab(*arguments: str, directory: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """A lab whose command holds on, with a stray process on its other host, and the processes that end with it."""
    lab_file = directory / "lab.json"
    command: list[str | Path] = [wan(), "up", "--path", "client:far=local", "--json", lab_file, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as lab:
        try:
            until(lab_file.exists, "the lab is up", within=LIMIT)
            far: list[str | Path] = [wan(), "in", "far", "--lab", lab_file, "--", sys.executable, "-c", HELD]
            stray = subprocess.Popen(far, stdout=subprocess.PIPE, text=True, start_new_session=True)
            assert stray.stdout
            assert lab.stdout
            pids = [int(stray.stdout.readline()), json.loads(lab_file.read_text())["hosts"]["far"]["pid"]]
            if "--" in arguments:
                pids.append(int(lab.stdout.readline()))
            yield lab, pids
            # Ours to bury.
            stray.wait(LIMIT)
            until(lambda: not any(is_running(pid) for pid in pids), "all of them end", within=LIMIT)
        finally:
            lab.kill()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_all_ends_with_the_lab(ground: Ground, how: signal.Signals) -> None:
    if not PERMITTED:
        assert_refused(run("up", "--path", "client:far=local", "--", "true"))
        return
    with held_lab("--", sys.executable, "-c", HELD, directory=ground.directory("lab")) as (lab, _):
        lab.send_signal(how)
        lab.wait(LIMIT)


def test_a_lab_without_a_command_ends_with_its_input(ground: Ground) -> None:
    if not PERMITTED:
        assert_refused(run("up", "--path", "client:far=local", "--until-eof"))
        return
    with held_lab("--until-eof", directory=ground.directory("lab")) as (lab, _):
        assert lab.stdin
        lab.stdin.close()
        assert lab.wait(LIMIT) == 0


def test_missing_permission_to_create_hosts_is_reported() -> None:
    wrapper = ("setpriv", "--bounding-set=-all") if os.geteuid() == 0 else ()
    assert_refused(run("up", "--path", "client=KIT", "--", "true", wrapper=wrapper))


def test_accuracy_is_measured_and_kept(ground: Ground) -> None:
    kept = ground.directory("accuracy") / "accuracy.json"
    done = run("accuracy", "--seconds", "0.2", "--path", "near:far=local", "--json", kept)
    if not PERMITTED:
        assert_refused(done)
        return
    assert done.returncode == 0, done.stderr
    [path] = json.loads(kept.read_text())["paths"]
    assert (path["path"], path["rtt_ms"], path["bound"]) == ("local", 0.2, "rate")
    assert sum(way["lost"] for way in path["traffic"]) == 0
    # Echoes that come later than a second count as lost, too.
    assert path["round_trips"]["lost"] <= 4
    assert path["round_trips"]["min_ms"] > 0
    assert 0 < path["stream"]["mbit"] <= 2 * path["mbit"]
