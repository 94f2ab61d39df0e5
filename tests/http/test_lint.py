"""httplint has nothing to object to in the answers."""

from __future__ import annotations

import pytest
from httplint import HttpResponseLinter
from httplint.note import levels

from harness.forebay import Forebay
from harness.http_client import ask

from .conftest import FILE

ACCEPTED = {
    "FRESHNESS_HEURISTIC": "this server does not know when an origin will change a file",
    "PARTIAL_WITHOUT_RANGE": "the parts of a body of several ranges have it (RFC 9110, 15.3.7.2)",
    "FIELD_DEPRECATED": "Digest is the field that clients of the grid ask for",
}


@pytest.mark.parametrize(
    ("method", "target", "fields", "status"),
    [
        ("GET", FILE, {}, 200),
        ("GET", FILE, {"Range": "bytes=0-99"}, 206),
        ("GET", FILE, {"Range": "bytes=0-99,200-299"}, 206),
        ("GET", FILE, {"Range": "bytes=999999999-"}, 416),
        ("GET", FILE, {"If-Match": '"other"'}, 412),
        ("GET", FILE, {"X-Transfer-Status": "true", "TE": "trailers"}, 200),
        ("GET", "/data/", {}, 200),
        ("GET", "/data/", {"Accept": "application/json"}, 200),
        ("GET", "/data", {}, 301),
        ("GET", "/data/missing", {}, 404),
        ("GET", FILE, {"Origin": "https://example.org"}, 200),
        ("HEAD", FILE, {"Want-Digest": "adler32", "Want-Repr-Digest": "adler=1"}, 200),
        ("OPTIONS", "/", {}, 200),
        ("PROPFIND", "/data/", {"Depth": "1"}, 207),
        ("PUT", FILE, {}, 405),
        ("BREW", FILE, {}, 501),
    ],
)
def test_answers_are_clean(exported: Forebay, method: str, target: str, fields: dict[str, str], status: int) -> None:
    reply = ask(exported, method, target, fields)
    assert reply.status == status
    linter = HttpResponseLinter()
    linter.is_head_response = method == "HEAD"
    linter.process_response_topline(b"HTTP/1.1", str(reply.status).encode(), b"")
    linter.process_headers([(name.encode(), value.encode()) for name, value in reply.fields.items()])
    linter.feed_content(reply.body)
    linter.finish_content(True, [(name.encode(), value.encode()) for name, value in reply.trailer.items()])
    objections = {type(note).__name__: note.summary for note in linter.notes if note.level in (levels.BAD, levels.WARN)}
    assert {name: text for name, text in objections.items() if name not in ACCEPTED} == {}
