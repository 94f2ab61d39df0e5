"""The commands that talk to a running server."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

from harness import clients, forebay
from harness.admin import Site
from harness.content import Pattern
from harness.forebay import BLOCK
from harness.ground import Ground
from harness.scripted import ScriptedOrigin
from harness.waiting import until
from harness.wire import Request

PATH = "/sizes/many-blocks.bin"
SMALL = "/sizes/block.bin"


def test_status_prints_the_state_as_text_and_json(site: Site) -> None:
    text = site.command("status").stdout
    assert text.startswith("server     ready, version ")
    assert site.command_json("status")["state"] == "ready"


def test_ls_and_inspect_show_cached_files(site: Site, patterns: dict[str, Pattern]) -> None:
    clients.fetch("forebay-get", site.ground, site.server.file_url(PATH))
    listed = until(lambda: "100%" in (now := site.command("ls").stdout) and now, "the file is listed as complete")
    assert listed.split()[-1] == PATH
    one = json.loads(site.command("ls", "/sizes/**", "--json").stdout)
    assert (one["name"], one["size"]) == (PATH, patterns[PATH].size)
    assert site.command("ls", "/other/**").stdout == ""
    shown = site.command("inspect", "--cached", site.server.file_url(PATH)).stdout
    assert f"name       {PATH}\n" in shown
    assert "runs       0+41 " in shown
    missing = site.command("inspect", "--cached", "/nothing")
    assert (missing.returncode, "/nothing is not in the cache" in missing.stderr) == (1, True)


def test_prefetch_reads_a_list_and_a_second_run_costs_nothing(site: Site) -> None:
    names = site.directory / "list"
    names.write_text(f"# files\n{PATH}\n\n{site.server.file_url(SMALL)}\n")
    first = site.command("prefetch", "--from", str(names))
    assert first.returncode == 0, first.stderr
    assert "2 files complete" in first.stderr
    origin_bytes = site.server.settled_metrics().origin_bytes
    assert site.command("prefetch", "--from", str(names)).returncode == 0
    assert site.server.metrics().origin_bytes == origin_bytes


def test_prefetch_names_the_files_it_could_not_fetch(site: Site) -> None:
    partly = site.command("prefetch", PATH, "/nothing")
    assert partly.returncode == 5
    assert "/nothing: " in partly.stderr
    assert "1 of 2 done" in partly.stderr
    assert site.command("prefetch", "--from", "/dev/null").returncode == 2


def test_interrupting_prefetch_cancels_its_job(ground: Ground) -> None:
    with ScriptedOrigin({"/slow": Pattern(1 << 20, 3)}) as origin:
        origin.on(Request.OPEN, lambda _: None)
        with Site(ground, {"export": [{"origins": [origin.url]}]}) as site:
            argv = [str(ground.forebay), "prefetch", "/slow", "--admin", str(site.socket)]
            running = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
            until(lambda: site.get("/jobs")["jobs"], "the job is begun")
            running.send_signal(signal.SIGINT)
            _, stderr = running.communicate(timeout=30)
            assert running.returncode == 130, stderr
            assert "run the same command to continue" in stderr
            job = until(lambda: (now := site.get("/jobs")["jobs"][0])["state"] != "running" and now, "it has ended")
            assert job["state"] == "cancelled"


def test_jobs_are_listed_shown_and_forgotten(site: Site) -> None:
    job = site.command("prefetch", SMALL, "/nothing", "--detach").stdout.strip()
    ended = until(lambda: " prefetch done, " in (now := site.command("jobs", job).stdout) and now, "the job has ended")
    assert "1 of 2 files done, 1 not" in ended
    assert "/nothing: " in ended
    assert site.command("jobs").stdout.startswith(f"{job} prefetch done")
    assert site.command("jobs", job, "--cancel").returncode == 0
    assert site.command("jobs", job).returncode == 1


def test_evict_takes_a_file_or_a_pattern_and_lists_kept_files(site: Site, patterns: dict[str, Pattern]) -> None:
    for path in patterns:
        clients.fetch("forebay-get", site.ground, site.server.file_url(path))
    until(lambda: len(site.command("ls").stdout.splitlines()) == len(patterns), "every file is listed")
    # The server may not have seen the last close yet.
    until(lambda: "removed" in site.command("evict", site.server.file_url(PATH)).stdout, "it is removed")
    until(lambda: site.command("evict", PATH).returncode == 1, "there is nothing left to evict")
    pinned = site.command("pin", SMALL, "--for", "1h")
    assert pinned.stdout.startswith(f"{SMALL} until "), pinned.stderr
    until(lambda: " -p " in site.command("ls", SMALL).stdout, "the pin is shown")
    partly = site.command("evict", "/sizes/*")
    assert (partly.returncode, partly.stderr.startswith(f"{SMALL}: the file is pinned")) == (5, True), partly.stderr
    assert site.command("unpin", "/sizes/**").returncode == 0
    assert site.command("evict", "/sizes/*").returncode == 0
    until(lambda: site.command("ls").stdout == "", "no file is listed")


def test_purge_makes_room(site: Site, patterns: dict[str, Pattern]) -> None:
    for path in (PATH, SMALL):
        clients.fetch("forebay-get", site.ground, site.server.file_url(path))
    until(lambda: len(site.command("ls").stdout.splitlines()) == 2, "both files are listed")
    until(lambda: site.get("/status")["usage"]["files"] == 2, "both files are accounted")
    # A file that was closed a moment ago is in use until it is synced.
    until(lambda: site.command("purge", "--to", "0%") and site.command("ls").stdout == "", "no file is listed")
    assert site.command("purge", "--to", "80").returncode == 2


def test_removals_are_previewed_and_asked_for(site: Site, patterns: dict[str, Pattern]) -> None:
    for path in (PATH, SMALL):
        clients.fetch("forebay-get", site.ground, site.server.file_url(path))
    until(lambda: len(site.command("ls").stdout.splitlines()) == 2, "both files are listed")
    until(lambda: site.get("/status")["usage"]["files"] == 2, "both files are accounted")
    dry_run = ["purge", "--to", "0%", "--dry-run"]
    until(lambda: site.command(*dry_run).stdout.startswith("2 files, "), "both are closed and synced")
    assert site.command("purge", "--to", "100%", "--dry-run").stdout.startswith("0 files, 0 B would be removed")
    until(lambda: site.command("evict", PATH, "--dry-run").stdout.startswith("1 files, "), "it is closed")
    assert site.command("evict", "/**", "--dry-run").stdout.startswith("2 files, ")
    assert site.command("pin", SMALL, "--for", "1h").returncode == 0
    until(lambda: site.command("evict", "/**", "--dry-run").stdout.startswith("1 files, "), "the pin counts")
    for command in (["evict", PATH], ["evict", "/**"], ["purge", "--to", "0%"]):
        status, output = on_terminal([str(site.ground.forebay), *command, "--admin", str(site.socket)], b"\n")
        assert status == 2, output
        assert "Remove 1 files, " in output
        assert "nothing was removed" in output
    assert len(site.command("ls").stdout.splitlines()) == 2
    yes = on_terminal([str(site.ground.forebay), "evict", PATH, "--admin", str(site.socket)], b"y\n")
    assert yes[0] == 0, yes[1]
    assert site.command("evict", SMALL, "--force", "--yes").returncode == 0
    until(lambda: site.command("ls").stdout == "", "no file is listed")


def on_terminal(argv: list[str], answer: bytes) -> tuple[int, str]:
    """Exit status and output of a program on a terminal, where `answer` is typed."""
    controller, terminal = os.openpty()
    with subprocess.Popen(argv, stdin=terminal, stdout=terminal, stderr=terminal) as running:
        os.close(terminal)
        os.write(controller, answer)
        output = b""
        # The end of the terminal's last user is an error on Linux.
        with contextlib.suppress(OSError):
            while read := os.read(controller, 4096):
                output += read
        os.close(controller)
        return running.wait(timeout=30), output.decode()


def test_scrub_waits_for_its_end(site: Site) -> None:
    clients.fetch("forebay-get", site.ground, site.server.file_url(PATH))
    done = site.command("scrub", "--wait")
    assert (done.returncode, "0 blocks damaged" in done.stdout) == (0, True), done.stderr
    assert "scrub ended " in site.command("scrub", "--show").stdout


def test_drain_waits_for_open_files_and_is_undone(site: Site) -> None:
    client = site.server.client()
    handle = client.open(PATH)
    assert "draining: 1 files open" in site.command("drain").stdout
    argv = [str(site.ground.forebay), "drain", "--wait", "--admin", str(site.socket)]
    waiting = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    client.read(handle, 0, 1).ok()
    assert waiting.poll() is None
    client.close()
    stdout, _ = waiting.communicate(timeout=30)
    assert "draining: 0 files open" in stdout
    assert "accepting new work" in site.command("drain", "--undo").stdout


def test_completions_manual_pages_and_the_api_document_are_generated(ground: Ground) -> None:
    completions = forebay.run(ground, "completions", "bash")
    assert completions.returncode == 0
    assert subprocess.run(["bash", "-n"], input=completions.stdout, text=True, check=False).returncode == 0
    pages = Path(ground.directory("man"))
    assert forebay.run(ground, "man", str(pages)).returncode == 0
    assert "FOREBAY_ADMIN" in (pages / "forebay-prefetch.1").read_text()
    assert json.loads(forebay.run(ground, "openapi").stdout)["openapi"] == "3.1.0"


def test_top_shows_open_files_and_their_rates(site: Site) -> None:
    with site.server.client() as client:
        handle = client.open(PATH)
        client.read(handle, 0, BLOCK)
        done = site.command("top", "--interval", "1", "--count", "2")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.strip().split("\n\nforebay ", 1)
    for screen in (first, second):
        assert "1 open files" in screen
        assert re.search(rf"^ .* {BLOCK // 1024}\.0 KiB .*{re.escape(PATH)}$", screen, re.MULTILINE), screen
    assert "MiB/s" not in first, "rates need two updates"
    assert "0.0 MiB/s" in second


def test_the_status_is_shown_again_and_again(site: Site) -> None:
    done = site.command("status", "--watch", "--interval", "1", "--count", "2")
    assert done.returncode == 0, done.stderr
    assert len(re.findall("^server +ready", done.stdout, re.MULTILINE)) == 2
