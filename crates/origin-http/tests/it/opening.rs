//! Opens, stats, listings and checksums.

use crate::scripted::{Reply, Server, origin_of, path};
use forebay_origin::{ListDetail, Origin, OriginError, RefusalKind};
use forebay_types::FileKind;
use tokio::net::TcpListener;

fn not_found() -> Reply {
    Reply::new("404 Not Found", "Content-Length: 0", b"")
}

#[tokio::test]
async fn the_identity_of_a_file_is_that_of_its_head() {
    let headers = "Content-Length: 42\nETag: \"x\"\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    let server = Server::start(move |_| Reply::new("200 OK", headers, b"")).await;
    let file = server.origin().open(&path("/a b")).await.unwrap();
    assert_eq!(file.identity().size, 42);
    assert_eq!(file.identity().validator.to_string(), "mtime:784111777 etag:\"x\"");
    assert_eq!(file.identity().origin.to_string(), format!("http://{}/base", server.address));
    assert_eq!(server.requests(), ["HEAD /base/a%20b"]);
}

/// As XrdHttp 5.5 answers: `HEAD` has the size alone, also that of a directory.
#[tokio::test]
async fn without_a_validator_in_head_the_time_of_change_is_a_property() {
    let server = Server::start(|seen| {
        let kind = if seen.target == "/base/d" { "<D:iscollection>1</D:iscollection>" } else { "" };
        let size = if seen.target == "/base/grown" { 43 } else { 42 };
        let xml = format!(
            "<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/</D:href><D:propstat><D:prop>{kind}\
             <D:getcontentlength>{size}</D:getcontentlength><D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>\
             </D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
        );
        match (seen.method.as_str(), seen.target.as_str()) {
            ("PROPFIND", "/base/denied") => Reply::new("403 Forbidden", "Content-Length: 0", b""),
            ("PROPFIND", "/base/long") => Reply::new("414 URI Too Long", "Content-Length: 0", b""),
            ("PROPFIND", _) => {
                Reply::new("207 Multi-Status", &format!("Content-Length: {}", xml.len()), xml.as_bytes())
            }
            _ => Reply::new("200 OK", "Content-Length: 42", b""),
        }
    })
    .await;
    let origin = server.origin();
    let validator = async |lfn| origin.open(&path(lfn)).await.unwrap().identity().validator.to_string();
    assert_eq!(validator("/f").await, "mtime:784111777");
    for lfn in ["/denied", "/long", "/grown"] {
        assert_eq!(validator(lfn).await, "", "{lfn}");
    }
    assert_eq!(validator("/f").await, "mtime:784111777");
    assert_eq!(origin.open(&path("/d")).await.err().unwrap().refusal(), Some(RefusalKind::IsDirectory));
    let (stat, _) = origin.stat_with_validator(&path("/d")).await.unwrap();
    assert_eq!((stat.kind, stat.mtime), (FileKind::Directory, 784_111_777));
    let (stat, validator) = origin.stat_with_validator(&path("/f")).await.unwrap();
    assert_eq!((stat.size, stat.mtime, validator.to_string().as_str()), (42, 784_111_777, "mtime:784111777"));
}

#[tokio::test]
async fn servers_that_refuse_head_are_asked_for_a_byte() {
    for refusal in ["403 Forbidden", "405 Method Not Allowed"] {
        let server = Server::start(move |seen| match seen.method.as_str() {
            "HEAD" => Reply::new(refusal, "Content-Length: 0", b""),
            _ => Reply::new("206 Partial Content", "Content-Length: 1\nContent-Range: bytes 0-0/42", b"a"),
        })
        .await;
        assert_eq!(server.origin().open(&path("/f")).await.unwrap().identity().size, 42);
    }
}

#[tokio::test]
async fn empty_files_and_unknown_sizes() {
    let server = Server::start(|seen| match seen.method.as_str() {
        "HEAD" => Reply::new("200 OK", "Transfer-Encoding: chunked", b""),
        _ if seen.target.ends_with("empty") => Reply::new("416 Range Not Satisfiable", "Content-Length: 0", b""),
        _ => Reply::new("200 OK", "Transfer-Encoding: chunked", b"1\r\na\r\n0\r\n\r\n"),
    })
    .await;
    assert_eq!(server.origin().open(&path("/empty")).await.unwrap().identity().size, 0);
    let error = server.origin().open(&path("/f")).await.err().unwrap();
    assert!(error.to_string().contains("size"), "{error}");
}

#[tokio::test]
async fn refusals_keep_their_meaning() {
    for (status, kind) in [
        ("404 Not Found", RefusalKind::NotFound),
        ("401 Unauthorized", RefusalKind::NotAuthenticated),
        ("400 Bad Request", RefusalKind::InvalidRequest),
    ] {
        let server = Server::start(move |_| Reply::new(status, "Content-Length: 0", b"")).await;
        let error = server.origin().open(&path("/f")).await.err().unwrap();
        assert_eq!(error.refusal(), Some(kind), "{error}");
        assert_eq!(server.requests().len(), 1, "another attempt would get the same answer");
    }
}

#[tokio::test]
async fn the_next_server_is_asked_when_one_fails() {
    let bad = Server::start(|_| Reply::new("500 Internal Server Error", "Content-Length: 0", b"")).await;
    let good = Server::start(|_| Reply::new("200 OK", "Content-Length: 3\nETag: \"x\"", b"")).await;
    let file = origin_of(&[bad.address, good.address]).open(&path("/f")).await.unwrap();
    assert_eq!(file.identity().size, 3);
    assert_eq!((bad.requests().len(), good.requests().len()), (1, 1));
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_is_asked_last_for_a_while() {
    let good = Server::start(|seen| match seen.target.as_str() {
        "/base/f" => Reply::new("200 OK", "Content-Length: 3\nETag: \"x\"", b""),
        _ => not_found(),
    })
    .await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let origin = origin_of(&[address, good.address]);
    origin.open(&path("/f")).await.unwrap();
    let returned = Server::start_at(address, |_| Reply::new("200 OK", "Content-Length: 3\nETag: \"x\"", b"")).await;
    origin.open(&path("/f")).await.unwrap();
    assert_eq!(origin.open(&path("/none")).await.err().unwrap().refusal(), Some(RefusalKind::NotFound));
    assert_eq!((returned.requests().len(), good.requests().len()), (0, 3));
    drop(good);
    origin.open(&path("/f")).await.unwrap();
    assert_eq!(returned.requests().len(), 1, "no other server is left");
}

#[tokio::test]
async fn redirects_are_followed_within_limits() {
    let server = Server::start(|seen| {
        let location = match seen.target.as_str() {
            "/base/loop" => "/base/loop",
            "/base/away" => "http://elsewhere.example/f",
            "/base/directory" => "/base/directory/",
            "/base/good" => "/good?signature=1",
            _ => return Reply::new("200 OK", "Content-Length: 3\nETag: \"x\"", b""),
        };
        Reply::new("302 Found", &format!("Content-Length: 0\nLocation: {location}"), b"")
    })
    .await;
    let origin = server.origin();
    let failure = async |lfn| origin.open(&path(lfn)).await.err().unwrap();
    assert!(matches!(failure("/loop").await, OriginError::RedirectLoop { .. }));
    assert!(matches!(failure("/away").await, OriginError::RedirectRefused { .. }));
    assert_eq!(failure("/directory").await.refusal(), Some(RefusalKind::IsDirectory));
    assert_eq!(origin.open(&path("/good")).await.unwrap().identity().size, 3);
}

#[tokio::test]
async fn directories_are_listed_by_webdav() {
    let xml = r#"<D:multistatus xmlns:D="DAV:">
        <D:response><D:href>/base/d/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop>
          <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
        <D:response><D:href>/base/d/a%20b</D:href><D:propstat><D:prop><D:getcontentlength>7</D:getcontentlength></D:prop>
          <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
        <D:response><D:href>/base/d/sub/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop>
          <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>
        <D:response><D:href>/base/d/sub/deeper</D:href></D:response>
        <D:response><D:href>/etc/passwd</D:href></D:response></D:multistatus>"#;
    let server = Server::start(move |seen| {
        assert_eq!(seen.method, "PROPFIND");
        Reply::new("207 Multi-Status", &format!("Content-Length: {}", xml.len()), xml.as_bytes())
    })
    .await;
    let entries = server.origin().list(&path("/d"), ListDetail::Stats).await.unwrap();
    let found: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.stat.as_ref().unwrap())).collect();
    assert_eq!(
        found.iter().map(|(name, stat)| (*name, stat.kind, stat.size)).collect::<Vec<_>>(),
        [("a b", FileKind::File, 7), ("sub", FileKind::Directory, 0)]
    );
    assert_eq!(server.seen.lock()[0].target, "/base/d/");
    assert_eq!(server.seen.lock()[0].header("depth"), Some("1"));
    assert_eq!(server.origin().stat(&path("/d")).await.unwrap().kind, FileKind::Directory);
}

#[tokio::test]
async fn without_webdav_files_have_a_stat_and_directories_no_listing() {
    let server = Server::start(|seen| match (seen.method.as_str(), seen.target.as_str()) {
        ("PROPFIND", _) => Reply::new("405 Method Not Allowed", "Content-Length: 0", b""),
        (_, "/base/f") => Reply::new("200 OK", "Content-Length: 9", b""),
        (_, "/base/d") => Reply::new("301 Moved Permanently", "Content-Length: 0\nLocation: /base/d/", b""),
        _ => not_found(),
    })
    .await;
    let origin = server.origin();
    assert_eq!(origin.stat(&path("/f")).await.unwrap().size, 9);
    assert_eq!(origin.stat(&path("/d")).await.unwrap().kind, FileKind::Directory);
    assert!(origin.stat(&path("/none")).await.unwrap_err().is_not_found());
    let asked = server.requests().iter().filter(|request| request.starts_with("PROPFIND")).count();
    assert_eq!(asked, 1, "the origin has said that it does not support it");
    let error = origin.list(&path("/d"), ListDetail::Names).await.unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalKind::Unsupported));
}

#[tokio::test]
async fn checksums_are_those_of_the_requested_algorithm() {
    let server = Server::start(|seen| match seen.header("want-digest") {
        Some("md5") => Reply::new("200 OK", "Content-Length: 3\nDigest: adler32=1", b""),
        _ => Reply::new("200 OK", "Content-Length: 3\nDigest: adler32=084b021f", b""),
    })
    .await;
    let origin = server.origin();
    assert_eq!(origin.checksum(&path("/f"), None).await.unwrap().to_string(), "adler32 084b021f");
    assert_eq!(origin.checksum(&path("/f"), Some("ADLER32")).await.unwrap().value, "084b021f");
    let error = origin.checksum(&path("/f"), Some("md5")).await.unwrap_err();
    assert_eq!(error.refusal(), Some(RefusalKind::Unsupported));
}
