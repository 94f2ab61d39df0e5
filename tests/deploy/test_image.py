"""The image's file: linted, its context complete, the steps of its last stage done on a machine and the result started.

No registry is asked, so the stages' base images are not part of this: this machine stands in for Debian's.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from harness.clients import fetch
from harness.content import Pattern, assert_same
from harness.ground import REPOSITORY, Ground, package, program
from harness.machine import Machine
from harness.xrootd import Origin

FILE = REPOSITORY / "deploy" / "oci" / "Containerfile"
CONFIGURATION = "/etc/forebay/forebay.toml"
PATH = "/sizes/many-blocks.bin"
EVERY_SYSTEM_HAS = {"libc6", "passwd"}


def instructions() -> list[tuple[str, str]]:
    """The instructions of the last stage, continued lines joined."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    split = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    named = [(name, rest) for name, rest in split]
    last = max(index for index, (name, _) in enumerate(named) if name == "FROM")
    return named[last:]


def only(name: str) -> str:
    """The arguments of the one instruction of this name."""
    (rest,) = [rest for other, rest in instructions() if other == name]
    return rest


def test_file_has_no_finding() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    judged = subprocess.run([hadolint, FILE], capture_output=True, text=True, timeout=60, check=False)
    assert (judged.returncode, judged.stdout) == (0, "")


def test_context_has_only_what_the_build_needs(ground: Ground) -> None:
    lines = (REPOSITORY / ".containerignore").read_text().splitlines()
    kept = [line[1:] for line in lines if line.startswith("!")]
    assert "*" in lines, "only listed files"
    context = ground.directory("context")
    for name in kept:
        if (REPOSITORY / name).is_dir():
            shutil.copytree(REPOSITORY / name, context / name, ignore=shutil.ignore_patterns("target"))
        else:
            shutil.copyfile(REPOSITORY / name, context / name)
    listed = subprocess.run(
        [program("cargo"), "metadata", "--locked", "--offline", "--format-version=1", "--no-deps"],
        cwd=context,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert "forebay" in {found["name"] for found in json.loads(listed.stdout)["packages"]}
    for name, rest in instructions():
        if name == "COPY" and not rest.startswith("--from"):
            assert (context / rest.split()[0]).exists(), rest


def test_image_has_the_libraries_of_the_package() -> None:
    depends = subprocess.run(
        ["dpkg-deb", "-f", package(), "Depends"], capture_output=True, text=True, check=True
    ).stdout
    needed = {part.split()[0] for part in depends.split(",")} - EVERY_SYSTEM_HAS
    (installed,) = [rest for name, rest in instructions() if name == "RUN" and "apt-get" in rest]
    assert needed
    assert needed <= set(installed.split())


def test_last_stage_can_be_built_and_serves_without_root(
    ground: Ground, plain_origin: Origin, patterns: dict[str, Pattern]
) -> None:
    port = ground.free_port()
    with Machine(ground) as machine:
        for name, rest in instructions():
            if name == "RUN" and "apt-get" not in rest:
                machine.done("sh", "-e", "-c", rest)
            if name == "COPY" and not rest.startswith("--from"):
                source, target = rest.split()
                text = (REPOSITORY / source).read_text().replace("root://origin.example.org:1094", plain_origin.url)
                text = text.replace('"[::]:1094"', f'"127.0.0.1:{port}"').replace("0.0.0.0:9090", "127.0.0.1:0")
                machine.done("install", "-D", "/dev/stdin", target, text=text)
        entry = [*json.loads(only("ENTRYPOINT")), *json.loads(only("CMD"))]
        assert entry[-1] == CONFIGURATION
        machine.write_bytes(entry[0], ground.forebay.read_bytes())
        machine.done("chmod", "755", entry[0])
        user, group = only("USER").split(":")
        as_user = [
            "setpriv",
            f"--reuid={user}",
            f"--regid={group}",
            "--clear-groups",
            "--bounding-set=-all",
            "--no-new-privs",
        ]
        server = machine.start(ground, "contained", [*as_user, *entry])
        server.wait_for_line(r"^ready root://")
        assert_same(fetch("xrdcp", ground, f"root://127.0.0.1:{port}/{PATH}", {}), patterns[PATH].all(), "through it")
        assert server.stop() == 0
        (volume,) = json.loads(only("VOLUME"))
        assert machine.done("find", volume, "-name", f"{Path(PATH).name}.cinfo", "-user", user)
    assert set(shlex.split(only("EXPOSE"))) == {"1094", "9090"}
