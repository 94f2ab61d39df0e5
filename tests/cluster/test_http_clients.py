"""Clients of HTTP through a redirector with XrdHttp."""

from __future__ import annotations

import subprocess
from urllib.parse import urlsplit

import pytest

from harness import cluster, forebay
from harness.cluster import ready
from harness.content import Pattern, assert_same
from harness.ground import Ground, program
from harness.pki import Credential, Grid
from harness.waiting import until
from harness.xrootd import Origin, Release


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_curl_follows_the_redirector_to_the_node_that_has_the_file(
    scheme: str,
    ground: Ground,
    plain_origin: Origin,
    names: dict[str, Pattern],
    grid: Grid,
    host: Credential,
    release: Release,
) -> None:
    lines = ["if exec xrootd", "xrd.protocol http libXrdHttp.so"]
    tls = {}
    if scheme == "https":
        lines += [f"xrd.tls {host.certificate} {host.key}", f"xrd.tlsca certdir {grid.directory}", "http.desthttps yes"]
        tls = {"tls": {"certificate": str(host.certificate), "key": str(host.key), "ca_dir": str(grid.directory)}}
    manager = cluster.manager(ground, more=[*lines, "fi"], release=release)
    port = ground.free_port()
    configuration = {
        "server": {"listen": [f"127.0.0.1:{port}"]},
        "cluster": {
            "managers": [f"127.0.0.1:{manager.node_port}"],
            "members": [f"127.0.0.1:{port}"],
        },
        "export": [{"path": "/", "origins": [plain_origin.url]}],
        **tls,
    }
    try:
        with forebay.configured(ground, configuration) as node:
            until(lambda: manager.logins(port) == 1, "the node is logged in")
            ready(manager).close()
            path, pattern = next(iter(names.items()))
            target = ground.directory("download") / "file"
            command = [str(program("curl")), "--silent", "--show-error", "--fail", "--location", "--max-time", "100"]
            command += ["--capath", str(grid.directory), "--output", str(target)]
            command += ["--write-out", "%{num_redirects} %{url_effective}"]
            for _ in range(2):
                done = subprocess.run(
                    [*command, f"{scheme}://localhost:{manager.port}{path}"],
                    capture_output=True,
                    text=True,
                    check=False,
                )
                assert done.returncode == 0, done.stderr
                redirects, effective = done.stdout.split()
                assert redirects == "1"
                # The host is the node's address or its name in the reverse DNS: the certificate has both.
                end = urlsplit(effective)
                assert (end.scheme, end.port, end.path) == (scheme, port, path), effective
                assert_same(target.read_bytes(), pattern.all(), path)
            assert node.settled_metrics().origin_bytes == pattern.size
    finally:
        manager.stop()
