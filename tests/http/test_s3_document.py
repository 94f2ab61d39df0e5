"""The commands of docs/s3.md work as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness.content import Pattern, assert_same
from harness.forebay import Forebay
from harness.ground import Ground
from harness.process import give_to_service

DOCUMENT = Path(__file__).parents[2] / "docs" / "s3.md"
CONTENT = Pattern(3_000_000, 91)


def blocks(kind: str) -> list[str]:
    """The blocks of a kind."""
    return re.findall(rf"```{kind}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def test_the_commands_of_the_document_work(serve: Callable[..., Forebay], ground: Ground) -> None:
    data, place = ground.directory("s3-document"), ground.directory("s3-commands")
    CONTENT.write(data / "store/data/events.root")
    (keys,) = blocks("ini")
    file = place / "keys"
    file.touch(mode=0o600)
    file.write_text(keys)
    give_to_service(file)
    server = serve(
        {
            "export": [{"path": "/", "directory": str(data)}],
            "s3": {"listen": ["127.0.0.1:0"], "access_keys": str(file)},
            "bucket": [{"name": "data", "path": "/store/data"}],
            "grant": [{"path": "/store/data", "rights": ["read", "list"], "methods": ["access-key"], "user": "ann"}],
        }
    )
    address = server.process.wait_for_line(r"^s3 http://(\S+)$")[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    for section in keys.split("\n\n"):
        values = dict(line.split(" = ") for line in section.strip().splitlines()[1:])
        names = {name.upper(): value for name, value in values.items() if name.startswith("aws_")}
        environment = {**environment, **names, "RCLONE_CONFIG": "/dev/null"}
        (commands,) = blocks("sh client")
        (script,) = blocks("python")
        lines = [["bash", "-c", line] for line in commands.strip().splitlines()]
        for argv in [*lines, [sys.executable, "-c", script]]:
            argv[-1] = argv[-1].replace("cache.example.org:9000", address)
            done = subprocess.run(
                argv,
                cwd=place,
                env=environment,
                capture_output=True,
                check=False,
                timeout=120,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, (argv, done.stdout, done.stderr)
        for name in ("events.root", "copies/events.root", "copy.root"):
            assert_same((place / name).read_bytes(), CONTENT.all(), name)
            (place / name).unlink()
