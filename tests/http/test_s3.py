"""The S3 dialect with real clients: boto3, rclone, curl, s3fs; cold and warm, byte for byte."""

from __future__ import annotations

import os
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import boto3
import pytest
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError

from harness import xrootd
from harness.content import Pattern, assert_same
from harness.forebay import BLOCK, Forebay
from harness.ground import Ground, program, s3fs_python
from harness.process import give_to_service

CONTENT = Pattern(40 * BLOCK + 1234, 81)
KEYS = {
    "file.bin": CONTENT,
    "a-b": Pattern(10, 82),
    "a/1 é+&.bin": Pattern(70_000, 83),
    "a/2.bin": Pattern(20, 84),
    "a/b/c/deep.bin": Pattern(30, 85),
    "empty.bin": Pattern(0, 86),
    **{f"many/{number:04}.bin": Pattern(1, 87) for number in range(25)},
}
PRIVATE = Pattern(40, 88)
ANN = ("FOREBAYANN", "secret/of+ann")
BOB = ("FOREBAYBOB", "secret-of-bob")
RIGHTS = ["read", "list", "stat"]


@pytest.fixture(scope="module")
def s3_origin(ground: Ground) -> xrootd.Origin:
    """Two directories that are buckets."""
    directory = ground.directory("s3-data")
    for key, content in KEYS.items():
        content.write(directory / "store/open" / key)
    PRIVATE.write(directory / "private/x.bin")
    return xrootd.plain(ground, directory)


@pytest.fixture
def s3(serve: Callable[..., Forebay], s3_origin: xrootd.Origin, ground: Ground) -> str:
    """URL of the S3 listener of an empty cache."""
    keys = ground.directory("s3-clients") / "keys"
    keys.touch(mode=0o600)
    keys.write_text(
        "".join(
            f"[{user}]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n"
            for user, (key, secret) in {"ann": ANN, "bob": BOB}.items()
        )
    )
    give_to_service(keys)
    server = serve(
        {
            "export": [{"path": "/", "origins": [s3_origin.url]}],
            "s3": {"listen": ["127.0.0.1:0"], "access_keys": str(keys), "domain": "s3.localhost"},
            "bucket": [{"name": "data", "path": "/store/open"}, {"name": "private", "path": "/private"}],
            "grant": [
                {"path": "/store/open", "rights": RIGHTS},
                {"path": "/private", "rights": RIGHTS, "user": "ann", "methods": ["access-key"]},
            ],
        }
    )
    return str(server.process.wait_for_line(r"^s3 (http://\S+)$")[1])


def client(url: str, key: tuple[str, str] | None, **options: Any) -> Any:  # noqa: ANN401
    """A client of boto3, which sends each request once."""
    config = Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **options)
    if key is None:
        config = config.merge(Config(signature_version=UNSIGNED))
    session = boto3.session.Session(*(key or ()), region_name="eu-central-2")
    return session.client("s3", endpoint_url=url, config=config)


def code_of(call: Callable[..., object], **arguments: object) -> tuple[int, str]:
    """Status and code of the error of a call."""
    with pytest.raises(ClientError) as raised:
        call(**arguments)
    answer: Any = raised.value.response
    assert answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


def test_boto3_gets_objects_cold_and_warm(s3: str, ground: Ground) -> None:
    ann = client(s3, ANN)
    for temperature in ("cold", "warm"):
        for key, content in KEYS.items():
            if key.startswith("many/"):
                continue
            got = ann.get_object(Bucket="data", Key=key)
            assert_same(got["Body"].read(), content.all(), f"{key} {temperature}")
        part = ann.get_object(Bucket="data", Key="file.bin", Range="bytes=70000-140000")
        assert_same(part["Body"].read(), CONTENT.all()[70_000:140_001], temperature)
        head = ann.head_object(Bucket="data", Key="file.bin")
        assert (head["ContentLength"], head["ETag"]) == (len(CONTENT.all()), part["ETag"])
        # In parallel ranges, each with If-Match.
        copy = ground.directory("s3-copy") / "copy"
        ann.download_file("data", "file.bin", str(copy))
        assert_same(copy.read_bytes(), CONTENT.all(), f"copied {temperature}")


@pytest.mark.parametrize("page", [1000, 7, 1])
def test_boto3_lists_keys_in_their_order_with_any_size_of_pages(s3: str, page: int) -> None:
    ann = client(s3, ANN)
    for operation in ("list_objects_v2", "list_objects"):
        pages = ann.get_paginator(operation).paginate(Bucket="data", PaginationConfig={"PageSize": page})
        objects = [entry for answer in pages for entry in answer.get("Contents", [])]
        assert [entry["Key"] for entry in objects] == sorted(KEYS)
        assert {entry["Key"]: entry["Size"] for entry in objects} == {key: len(KEYS[key].all()) for key in KEYS}
        pages = ann.get_paginator(operation).paginate(Bucket="data", Delimiter="/", PaginationConfig={"PageSize": page})
        answers = list(pages)
        found = [entry["Key"] for answer in answers for entry in answer.get("Contents", [])]
        prefixes = [entry["Prefix"] for answer in answers for entry in answer.get("CommonPrefixes", [])]
        assert (found, prefixes) == (["a-b", "empty.bin", "file.bin"], ["a/", "many/"])
    etag = ann.head_object(Bucket="data", Key="a-b")["ETag"]
    assert [entry["ETag"] for entry in ann.list_objects_v2(Bucket="data", Prefix="a-")["Contents"]] == [etag]


def test_prefixes_are_those_of_keys_not_of_directories(s3: str) -> None:
    ann = client(s3, ANN)

    def keys(**arguments: object) -> list[str]:
        answer = ann.list_objects_v2(Bucket="data", **arguments)
        assert answer["KeyCount"] == len(answer.get("Contents", [])) + len(answer.get("CommonPrefixes", []))
        return [entry["Key"] for entry in answer.get("Contents", [])] + [
            entry["Prefix"] for entry in answer.get("CommonPrefixes", [])
        ]

    assert keys(Prefix="a/") == ["a/1 é+&.bin", "a/2.bin", "a/b/c/deep.bin"]
    assert keys(Prefix="a") == ["a-b", "a/1 é+&.bin", "a/2.bin", "a/b/c/deep.bin"]
    assert keys(Prefix="a", Delimiter="/") == ["a-b", "a/"]
    assert keys(Prefix="a/", Delimiter="/") == ["a/1 é+&.bin", "a/2.bin", "a/b/"]
    assert keys(Prefix="many/001", StartAfter="many/0015.bin") == [f"many/{number:04}.bin" for number in range(16, 20)]
    assert keys(Prefix="nothing/") == []
    assert keys(Prefix="file.bin/") == []
    assert keys(MaxKeys=0) == []
    assert keys(Prefix="../private/") == []


def test_buckets_are_those_of_the_configuration(s3: str) -> None:
    ann, bob = client(s3, ANN), client(s3, BOB)
    names = [[bucket["Name"] for bucket in user.list_buckets()["Buckets"]] for user in (ann, bob)]
    assert names == [["data", "private"], ["data"]]
    assert ann.head_bucket(Bucket="data")["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert ann.get_bucket_location(Bucket="data")["LocationConstraint"] is None
    assert code_of(ann.head_bucket, Bucket="nothing") == (404, "404")
    assert code_of(ann.list_objects_v2, Bucket="nothing") == (404, "NoSuchBucket")


def test_keys_have_the_grants_of_their_users(s3: str) -> None:
    ann = client(s3, ANN)
    assert_same(ann.get_object(Bucket="private", Key="x.bin")["Body"].read(), PRIVATE.all(), "private")
    assert [entry["Key"] for entry in ann.list_objects_v2(Bucket="private")["Contents"]] == ["x.bin"]
    # It is in the cache now.
    for other in (client(s3, BOB), client(s3, None)):
        assert code_of(other.get_object, Bucket="private", Key="x.bin") == (403, "AccessDenied")
        assert code_of(other.list_objects_v2, Bucket="private") == (403, "AccessDenied")
        assert other.get_object(Bucket="data", Key="a-b")["Body"].read() == KEYS["a-b"].all()
    wrong = client(s3, (ANN[0], "other"))
    assert code_of(wrong.get_object, Bucket="data", Key="a-b") == (403, "SignatureDoesNotMatch")
    unknown = client(s3, ("UNKNOWN", "other"))
    assert code_of(unknown.get_object, Bucket="data", Key="a-b") == (403, "InvalidAccessKeyId")


def test_presigned_urls_work_until_they_expire(s3: str) -> None:
    ann = client(s3, ANN, signature_version="s3v4")
    url = ann.generate_presigned_url("get_object", Params={"Bucket": "private", "Key": "x.bin"}, ExpiresIn=600)
    with urllib.request.urlopen(url, timeout=30) as answer:
        assert answer.read() == PRIVATE.all()
    for changed in (url.replace("x.bin", "y.bin"), url.replace("X-Amz-Expires=600", "X-Amz-Expires=6000")):
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(changed, timeout=30)
        assert refused.value.code == 403
        assert b"<Code>SignatureDoesNotMatch</Code>" in refused.value.read()


def test_errors_are_those_of_s3(s3: str) -> None:
    ann = client(s3, ANN)
    assert code_of(ann.get_object, Bucket="data", Key="nothing") == (404, "NoSuchKey")
    assert code_of(ann.head_object, Bucket="data", Key="nothing") == (404, "404")
    for key in ("a", "a/", "a//2.bin", "a/../a-b"):
        assert code_of(ann.get_object, Bucket="data", Key=key) == (404, "NoSuchKey")
    assert code_of(ann.get_object, Bucket="data", Key="a-b", Range="bytes=10-") == (416, "InvalidRange")
    assert code_of(ann.get_object, Bucket="data", Key="a-b", IfMatch='"x"') == (412, "PreconditionFailed")
    assert code_of(ann.put_object, Bucket="data", Key="new", Body=b"x") == (405, "MethodNotAllowed")
    assert code_of(ann.delete_object, Bucket="data", Key="a-b") == (405, "MethodNotAllowed")
    assert code_of(ann.get_object_acl, Bucket="data", Key="a-b") == (501, "NotImplemented")
    assert code_of(ann.get_object, Bucket="data", Key="a-b", VersionId="3") == (501, "NotImplemented")
    assert ann.get_object(Bucket="data", Key="a-b")["Body"].read() == KEYS["a-b"].all()


def test_a_bucket_may_be_in_the_name_of_the_server(s3: str) -> None:
    port = s3.rsplit(":", 1)[1]
    request = urllib.request.Request(f"{s3}/a/2.bin", headers={"Host": f"data.s3.localhost:{port}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.read() == KEYS["a/2.bin"].all()


def test_curl_signs_by_itself(s3: str) -> None:
    flags = ["--silent", "--show-error", "--fail", "--max-time", "60", "--aws-sigv4", "aws:amz:eu-central-2:s3"]
    for temperature in ("cold", "warm"):
        done = subprocess.run(
            [program("curl"), *flags, "--user", ":".join(ANN), f"{s3}/private/x.bin"], capture_output=True, check=True
        )
        assert_same(done.stdout, PRIVATE.all(), temperature)
    done = subprocess.run(
        [program("curl"), *flags, "--user", ":".join(BOB), f"{s3}/private/x.bin"], capture_output=True, check=False
    )
    assert done.returncode == 22


def test_rclone_lists_and_copies(s3: str, ground: Ground) -> None:
    flags = {"provider": "Other", "endpoint": s3, "access-key-id": ANN[0], "secret-access-key": ANN[1]}
    remote = [argument for name, value in flags.items() for argument in (f"--s3-{name}", value)]
    # A site's settings for AWS are not for this server.
    env = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    env["RCLONE_CONFIG"] = "/dev/null"

    def rclone(*arguments: str | Path) -> str:
        argv = [program("rclone"), *remote, *arguments]
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert rclone("lsf", ":s3:").split() == ["data/", "private/"]
    assert sorted(rclone("lsf", ":s3:data").splitlines()) == ["a-b", "a/", "empty.bin", "file.bin", "many/"]
    assert sorted(rclone("lsf", "-R", "--files-only", ":s3:data").splitlines()) == sorted(KEYS)
    for temperature in ("cold", "warm"):
        target = ground.directory(f"rclone-{temperature}")
        rclone("copy", ":s3:data", target)
        for key, content in KEYS.items():
            assert_same((target / key).read_bytes(), content.all(), f"{key} {temperature}")


def test_s3fs_reads_files_and_lists_directories(s3: str, ground: Ground) -> None:
    script = f"""
import s3fs
fs = s3fs.S3FileSystem(key={ANN[0]!r}, secret={ANN[1]!r}, endpoint_url={s3!r})
assert sorted(fs.ls("data/a")) == ["data/a/1 é+&.bin", "data/a/2.bin", "data/a/b"], fs.ls("data/a")
assert sorted(fs.find("data/a")) == ["data/a/1 é+&.bin", "data/a/2.bin", "data/a/b/c/deep.bin"]
assert fs.isdir("data/a") and fs.isfile("data/a-b") and not fs.exists("data/nothing")
assert fs.info("data/file.bin")["size"] == {len(CONTENT.all())}
for _ in range(2):
    with fs.open("data/file.bin", "rb") as file:
        file.seek(1_000_000)
        open("part", "wb").write(file.read(200_000))
    fs.get("data/file.bin", "whole")
"""
    place = ground.directory("s3fs")
    done = subprocess.run(
        [s3fs_python(), "-c", script], cwd=place, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert_same((place / "part").read_bytes(), CONTENT.all()[1_000_000:1_200_000], "part")
    assert_same((place / "whole").read_bytes(), CONTENT.all(), "whole")
