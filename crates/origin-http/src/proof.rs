//! The credential of a request: a token in a field, or a signature over the request.

use crate::target::Target;
use forebay_auth::{AccessKey, EMPTY_PAYLOAD, S3Request, Token};
use forebay_http_proto::iso_date;
use hyper::{header::HeaderValue, http::request::Builder};

/// The credential that goes with a request.
#[derive(Clone, Copy)]
pub(crate) enum Proof<'a> {
    Nothing,
    Token(&'a Token),
    /// The request is signed, as of this time in seconds of the Unix epoch.
    AccessKey(&'a AccessKey, i64),
}

/// Asks for the checksums that were stored with an object.
pub(crate) const CHECKSUM_MODE: &str = "x-amz-checksum-mode";

/// Signs a request as of `now`, in seconds of the Unix epoch. All fields of S3 that it has are signed.
pub(crate) fn sign(
    request: Builder,
    key: &AccessKey,
    target: &Target,
    now: i64,
) -> Result<Builder, hyper::http::Error> {
    let time: String = iso_date(now).chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let host = target.host();
    let mode = request.headers_ref().and_then(|headers| headers.get(CHECKSUM_MODE)).map(|_| (CHECKSUM_MODE, "ENABLED"));
    let mut fields = vec![("host", host.as_str())];
    fields.extend(mode);
    fields.extend([("x-amz-content-sha256", EMPTY_PAYLOAD), ("x-amz-date", &time)]);
    fields.extend(key.session_token().map(|token| ("x-amz-security-token", token)));
    let (path, query) = target.path_and_query.split_once('?').unwrap_or((&target.path_and_query, ""));
    let method = request.method_ref().map_or("GET", |method| method.as_str());
    let signed = S3Request { method, path, query, fields: &fields, payload: EMPTY_PAYLOAD };
    // Without a signature the server refuses the request, and says so.
    let authorization = key.authorization(&signed, &time).unwrap_or_default();
    let mut request = request
        .header("x-amz-content-sha256", EMPTY_PAYLOAD)
        .header("x-amz-date", &time)
        .header("authorization", secret(&authorization)?);
    if let Some(token) = key.session_token() {
        request = request.header("x-amz-security-token", secret(token)?);
    }
    Ok(request)
}

/// The value of a field that is not to be logged.
pub(crate) fn secret(text: &str) -> Result<HeaderValue, hyper::http::Error> {
    let mut value = HeaderValue::from_str(text)?;
    value.set_sensitive(true);
    Ok(value)
}
