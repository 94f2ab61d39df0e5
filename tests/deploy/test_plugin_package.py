"""The RPM of the client plug-in for EL9: its content, what it needs, and a client that loads it."""

from __future__ import annotations

import subprocess

from harness import forebay, xrootd
from harness.clients import run_client
from harness.content import Pattern, assert_same
from harness.ground import REPOSITORY, Ground, program
from harness.plugin import through_caches

from .conftest import Release, plugin_library, query

CHECK = str(REPOSITORY / "deploy/package/check-plugin-symbols.sh")
LIBRARY = "/usr/lib64/libXrdClForebay-5.so"


def test_package_states_what_it_needs_and_has_no_errors(release: Release) -> None:
    assert LIBRARY in query(release.plugin, "--list").split()
    needed = query(release.plugin, "--requires")
    assert "libXrdCl.so.3()(64bit)" in needed, "clients of XRootD 5"
    lint = subprocess.run([str(program("rpmlint")), str(release.plugin)], capture_output=True, text=True, check=False)
    errors = [line.split(" E: ")[1] for line in lint.stdout.splitlines() if " E: " in line]
    # A package is signed by its publisher. The library under test is not linked for old loaders, the released one is.
    assert [error for error in errors if not error.startswith("missing-hash-section")] == ["no-signature"], lint.stdout


def test_client_reads_through_a_cache_with_the_packaged_library(
    ground: Ground, release: Release, plain_origin: xrootd.Origin, patterns: dict[str, Pattern]
) -> None:
    root = ground.directory("packaged")
    archive = subprocess.run([str(program("rpm2cpio")), str(release.plugin)], check=True, stdout=subprocess.PIPE).stdout
    extract = [str(program("cpio")), "--extract", "--quiet", "--make-directories"]
    subprocess.run(extract, cwd=root, check=True, input=archive)
    path, pattern = next(iter(patterns.items()))
    with forebay.cache(ground, plain_origin.url) as cache:
        # As clients name it: the number of their XRootD is added.
        environment = through_caches([cache.url], XRD_PLUGIN=str(root / "usr/lib64/libXrdClForebay.so"))
        copy = ground.directory("copy") / "f"
        done = run_client([program("xrdcp"), "--silent", f"{plain_origin.url}/{path}", copy], environment)
        assert done.returncode == 0, done.stderr
        assert_same(copy.read_bytes(), pattern.all(), path)
        assert cache.settled_metrics().origin_bytes == pattern.size, "it was read through the cache"


def test_library_for_newer_systems_is_refused() -> None:
    accepted = subprocess.run([CHECK, str(plugin_library())], capture_output=True, text=True, check=False)
    assert accepted.returncode == 0, accepted.stderr
    # The C++ library of this system.
    found = subprocess.run(["g++", "-print-file-name=libstdc++.so"], check=True, capture_output=True, text=True).stdout
    refused = subprocess.run([CHECK, found.strip()], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "EL9 has" in refused.stderr
