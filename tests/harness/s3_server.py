"""An S3 server that checks signatures: moto, over TLS."""

from __future__ import annotations

import json
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

import boto3

from .ground import Ground
from .pki import Credential, Grid
from .process import Process, give_to_service
from .waiting import until

BUCKET = "bucket"
ALLOWED = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


class S3Server:
    """A running server with one bucket. Requests need a signature once `require_signatures` was called."""

    def __init__(self, ground: Ground, grid: Grid, host: Credential) -> None:
        self.key = ("setup", "setup")
        self._ground, self.port, directory = ground, ground.free_port(), ground.directory("s3")
        self.authorities = directory / "authorities.pem"
        trusted = (grid.root.certificate, grid.issuer.certificate)
        self.authorities.write_text("".join(file.read_text() for file in trusted))
        program = Path(sys.executable).parent / "moto_server"
        files = ["-c", str(host.certificate), "-k", str(host.key)]
        argv = [str(program), "-H", "127.0.0.1", "-p", str(self.port), "-s", *files]
        # Until then any number of requests is served without a look at their signature.
        environment = {"INITIAL_NO_AUTH_ACTION_COUNT": "1000000"}
        self.process = Process("moto", argv, directory, env=environment, keep_root=True)
        # Its modules take long to load on a busy machine.
        until(self._answers, "the S3 server answers", within=120.0)
        self.client("setup", "setup").create_bucket(Bucket=BUCKET)

    @property
    def url(self) -> str:
        """URL of the bucket, as an origin."""
        return f"s3://127.0.0.1:{self.port}/{BUCKET}"

    def _answers(self) -> bool:
        try:
            self._admin("GET", "data.json")
        except OSError:
            return False
        return True

    def _admin(self, method: str, path: str, body: bytes | None = None) -> bytes:
        url, fields = f"https://127.0.0.1:{self.port}/moto-api/{path}", {"Content-Type": "text/plain"}
        request = urllib.request.Request(url, body, fields, method=method)
        context = ssl.create_default_context(cafile=str(self.authorities))
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            read: bytes = answer.read()
            return read

    def client(self, key: str, secret: str, service: str = "s3") -> Any:  # noqa: ANN401
        """A client of the server with an access key."""
        session = boto3.session.Session(aws_access_key_id=key, aws_secret_access_key=secret, region_name="us-east-1")
        return session.client(service, endpoint_url=f"https://127.0.0.1:{self.port}", verify=str(self.authorities))

    def put(self, key: str, content: bytes, **more: str) -> None:
        """Stores an object."""
        self.client("setup", "setup").put_object(Bucket=BUCKET, Key=key, Body=content, **more)

    def require_signatures(self) -> Path:
        """From now on requests need the signature of a user; returns the file of access keys."""
        iam = self.client("setup", "setup", "iam")
        iam.create_user(UserName="cache")
        iam.put_user_policy(UserName="cache", PolicyName="read", PolicyDocument=json.dumps(ALLOWED))
        key = iam.create_access_key(UserName="cache")["AccessKey"]
        self._admin("POST", "reset-auth", b"0")
        self.key = (key["AccessKeyId"], key["SecretAccessKey"])
        return self.key_file(*self.key)

    def key_file(self, key: str, secret: str) -> Path:
        """A file with an access key, as a server's user may read it."""
        file = self._ground.directory("s3-keys") / "keys"
        file.touch(mode=0o600)
        file.write_text(f"[cache]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
        return give_to_service(file)

    def stop(self) -> None:
        """Ends it."""
        self.process.stop()
