"""The demo of a site: a day is replayed, page, Prometheus and OpenSearch have it, and all servers end with the demo."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from harness.ground import REPOSITORY, Ground, search_servers
from harness.process import Process

READY_SECONDS = 500.0


def test_a_day_of_a_site_is_shown_until_ctrl_c(ground: Ground) -> None:
    directory = ground.directory("demo-site")
    options = ["--days", "1", "--scale", "0.01", "--search", str(search_servers())]
    argv = [sys.executable, "-u", "-m", "demo.site", str(ground.forebay), str(directory / "data"), *options]
    # As root it must be able to read the interpreter, which may be below a home directory.
    demo = Process("demo-site", argv, directory, env={"PYTHONPATH": str(REPOSITORY)}, keep_root=True)
    try:
        # The demo compares the counts of page, Prometheus and OpenSearch with those of the cache.
        demo.wait_for_line("^Press Ctrl-C", within=READY_SECONDS)
        output = demo.output()
        urls = dict(re.findall(r"^(Status page|Prometheus|OpenSearch) +(http://\S+)", output, re.MULTILINE))
        assert len(urls) == 3, output
        for url in urls.values():
            with urllib.request.urlopen(url, timeout=30) as answer:
                assert answer.status == 200, url
        assert int(re.findall(r"(\d+) MB read", output)[0]) > 0, output
        commands = re.findall(r"^  (\S+ (?:sizing|simulate) .*)$", output, re.MULTILINE)
        assert len(commands) == 2, output
        for command in commands:
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    finally:
        demo.signal(signal.SIGINT)
        assert demo.wait(within=60) == 0, demo.tail()
    for url in urls.values():
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(url, timeout=5)
