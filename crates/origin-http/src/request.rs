//! Requests to HTTP servers.

use crate::{
    proof::{CHECKSUM_MODE, Proof, secret, sign},
    target::Target,
};
use bytes::Bytes;
use forebay_telemetry::RequestKind;
use forebay_types::{ByteRange, ETag};
use http_body_util::Empty;
use hyper::{
    Method, Request,
    header::{ACCEPT_ENCODING, AUTHORIZATION, HOST, HeaderName, IF_MATCH, RANGE, USER_AGENT, VIA},
};
use zeroize::Zeroizing;

/// Headers of WebDAV (RFC 4918) and of digests (RFC 3230, RFC 9530).
const DEPTH: HeaderName = HeaderName::from_static("depth");
const WANT_DIGEST: HeaderName = HeaderName::from_static("want-digest");
const WANT_REPR_DIGEST: HeaderName = HeaderName::from_static("want-repr-digest");

/// A request to the servers of an origin, without the server.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    /// Size and validators of a file.
    Head,
    /// The same, and these bytes of the file.
    Open(ByteRange),
    /// The checksum of the algorithm, or any that clients of this field use.
    Checksum(Option<String>),
    /// Ranges of the file, if it still has the entity tag.
    Get { ranges: Vec<ByteRange>, etag: Option<ETag> },
    /// Properties of the path itself.
    Properties,
    /// Properties of the entries of a directory.
    List,
    /// The keys of an S3 server that the query of the target selects.
    Objects,
    /// A document about a federation, or the servers that its director names for a path.
    Federation,
}

impl Question {
    /// The operation, for messages about failures.
    pub(crate) const fn doing(&self) -> &'static str {
        match self {
            Self::Head | Self::Open(_) => "opening a file",
            Self::Checksum(_) => "asking for a checksum",
            Self::Get { .. } => "reading",
            Self::Properties => "asking for a stat",
            Self::List | Self::Objects => "listing a directory",
            Self::Federation => "asking a federation",
        }
    }

    pub(crate) const fn kind(&self) -> RequestKind {
        match self {
            Self::Head | Self::Open(_) => RequestKind::Open,
            Self::Checksum(_) | Self::Federation => RequestKind::Query,
            Self::Get { .. } => RequestKind::Read,
            Self::Properties => RequestKind::Stat,
            Self::List | Self::Objects => RequestKind::Dirlist,
        }
    }

    /// The request to `target`, with a credential if the server is shown one.
    ///
    /// # Errors
    /// If a part of it cannot be a part of a request.
    pub(crate) fn request(
        &self,
        target: &Target,
        proof: Proof<'_>,
    ) -> Result<Request<Empty<Bytes>>, hyper::http::Error> {
        let mut request = Request::builder()
            .method(self.method())
            .uri(&target.path_and_query)
            .header(HOST, target.host())
            .header(USER_AGENT, concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .header(VIA, "1.1 forebay")
            // Ranges are of the stored bytes; servers that compress count others.
            .header(ACCEPT_ENCODING, "identity");
        if let Proof::Token(token) = proof {
            let text = Zeroizing::new(format!("Bearer {}", token.expose()));
            request = request.header(AUTHORIZATION, secret(&text)?);
        }
        if matches!(self, Self::Checksum(_)) && target.is_s3() {
            request = request.header(CHECKSUM_MODE, "ENABLED");
        }
        if let Proof::AccessKey(key, now) = proof {
            request = sign(request, key, target, now)?;
        }
        request = match self {
            Self::Head => request,
            Self::Checksum(algorithm) => with_digest(request, algorithm.as_deref()),
            Self::Open(range) => request.header(RANGE, listed(&[*range])),
            Self::Get { ranges, etag } => {
                let request = request.header(RANGE, listed(ranges));
                // Weak tags never match here (RFC 9110, 13.1.1).
                match etag.as_ref().filter(|etag| !etag.is_weak()) {
                    Some(etag) => request.header(IF_MATCH, etag.as_str()),
                    None => request,
                }
            }
            Self::Properties => request.header(DEPTH, "0"),
            Self::List => request.header(DEPTH, "1"),
            Self::Objects | Self::Federation => request,
        };
        request.body(Empty::new())
    }

    fn method(&self) -> Method {
        match self {
            Self::Head | Self::Checksum(_) => Method::HEAD,
            Self::Open(_) | Self::Get { .. } | Self::Objects | Self::Federation => Method::GET,
            Self::Properties | Self::List => Method::from_bytes(b"PROPFIND").unwrap_or(Method::GET),
        }
    }
}

/// The value of `Range` for `ranges`.
fn listed(ranges: &[ByteRange]) -> String {
    let listed = ranges.iter().map(|range| format!("{}-{}", range.start(), range.end().saturating_sub(1)));
    format!("bytes={}", listed.collect::<Vec<_>>().join(","))
}

fn with_digest(request: hyper::http::request::Builder, algorithm: Option<&str>) -> hyper::http::request::Builder {
    let Some(algorithm) = algorithm else {
        return request
            .header(WANT_DIGEST, "adler32,md5;q=0.5,crc32c;q=0.3")
            .header(WANT_REPR_DIGEST, "adler=3,md5=2,crc32c=1");
    };
    let new_name = if algorithm == "adler32" { "adler" } else { algorithm };
    request.header(WANT_DIGEST, algorithm).header(WANT_REPR_DIGEST, format!("{new_name}=1"))
}
