//! Signatures of requests to S3 servers: version 4 of AWS.
//!
//! A request is signed with a key derived from the secret, the day, the region and the service. The signature is over the method, the
//! encoded path and query, some header fields, and the checksum of the body.

mod access_keys;
mod received;

pub use access_keys::{AccessKeys, AccessKeysError, CLIENT_KEYS_LEN_MAX, ClientKey};
pub use received::{EXPIRES_SECONDS_MAX, SKEW_SECONDS_MAX, ShownSignature, SignatureError, SignedRequest};

use openssl::{
    error::ErrorStack,
    hash::{MessageDigest, hash},
    pkey::PKey,
    sign::Signer,
};
use std::fmt;
use zeroize::Zeroizing;

/// An access key of an S3 server.
#[derive(Clone)]
pub struct AccessKey {
    pub id: String,
    secret: Zeroizing<String>,
    session_token: Option<Zeroizing<String>>,
    region: String,
}

/// A request as it is signed.
#[derive(Clone, Copy, Debug)]
pub struct S3Request<'a> {
    pub method: &'a str,
    /// The path as it is sent: every byte but letters, digits and `-._~/` is percent-encoded.
    pub path: &'a str,
    /// The query as it is sent: encoded in the same way with the slash, and sorted.
    pub query: &'a str,
    /// Lower-case names and values of the signed fields, sorted by name.
    pub fields: &'a [(&'a str, &'a str)],
    /// The checksum of the body in hexadecimal digits, or [`UNSIGNED_PAYLOAD`].
    pub payload: &'a str,
}

/// SHA-256 of an empty body.
pub const EMPTY_PAYLOAD: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// Stands for the checksum of a body that is not signed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// The region of a key that names none, and of servers that have none.
pub const REGION_DEFAULT: &str = "us-east-1";

/// Longest file of keys that is read, in bytes.
pub const ACCESS_KEYS_LEN_MAX: usize = 64 << 10;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
const SERVICE: &str = "s3";

/// A text without the access key that is looked for.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum AccessKeyError {
    #[error("it is longer than {ACCESS_KEYS_LEN_MAX} bytes, or not a text")]
    NotText,
    #[error("it has no profile [{0}]")]
    NoProfile(String),
    #[error("profile [{0}] lacks aws_access_key_id or aws_secret_access_key")]
    Incomplete(String),
}

impl AccessKey {
    /// A key for the servers of `region`.
    pub fn new(id: &str, secret: &str, session_token: Option<&str>, region: Option<&str>) -> Self {
        Self {
            id: id.to_owned(),
            secret: Zeroizing::new(secret.to_owned()),
            session_token: session_token.map(|token| Zeroizing::new(token.to_owned())),
            region: region.unwrap_or(REGION_DEFAULT).to_owned(),
        }
    }

    /// The token that is sent along with requests that are signed with a temporary key.
    pub fn session_token(&self) -> Option<&str> {
        self.session_token.as_ref().map(|token| token.as_str())
    }

    /// The bytes that distinguish it from other keys.
    pub(crate) fn proof(&self) -> Zeroizing<Vec<u8>> {
        let token = self.session_token().unwrap_or_default();
        Zeroizing::new([&self.id, self.secret.as_str(), token, &self.region].join("\n").into_bytes())
    }

    /// The value of `Authorization` for a request at `time`, written as `20130524T000000Z`. The same time is in the field `x-amz-date`.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn authorization(&self, request: &S3Request<'_>, time: &str) -> Result<String, ErrorStack> {
        let scope = self.scope(time);
        let signature = self.signature(request, time)?;
        Ok(format!(
            "{ALGORITHM} Credential={}/{scope},SignedHeaders={},Signature={signature}",
            self.id,
            request.signed_fields()
        ))
    }

    /// The signature of a request at `time`, in hexadecimal digits.
    ///
    /// # Errors
    /// When the crypto library fails.
    pub fn signature(&self, request: &S3Request<'_>, time: &str) -> Result<String, ErrorStack> {
        let canonical = hash(MessageDigest::sha256(), request.canonical().as_bytes())?;
        let text = format!("{ALGORITHM}\n{time}\n{}\n{}", self.scope(time), hex(&canonical));
        let first = Zeroizing::new(format!("AWS4{}", self.secret.as_str()));
        let mut key = Zeroizing::new(first.as_bytes().to_vec());
        for part in [day_of(time), &self.region, SERVICE, "aws4_request"] {
            key = Zeroizing::new(hmac(&key, part.as_bytes())?);
        }
        Ok(hex(&hmac(&key, text.as_bytes())?))
    }

    fn scope(&self, time: &str) -> String {
        format!("{}/{}/{SERVICE}/aws4_request", day_of(time), self.region)
    }
}

impl fmt::Debug for AccessKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "AccessKey({})", self.id)
    }
}

impl S3Request<'_> {
    fn signed_fields(&self) -> String {
        self.fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";")
    }

    fn canonical(&self) -> String {
        let fields: String = self.fields.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let Self { method, path, query, payload, .. } = self;
        format!("{method}\n{path}\n{query}\n{fields}\n{}\n{payload}", self.signed_fields())
    }
}

fn day_of(time: &str) -> &str {
    time.split('T').next().unwrap_or_default()
}

fn hmac(key: &[u8], message: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(key)?;
    Signer::new(MessageDigest::sha256(), &key)?.sign_oneshot_to_vec(message)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "20130524T000000Z";

    fn key() -> AccessKey {
        AccessKey::new("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", None, None)
    }

    /// The examples of "Authenticating Requests: Using the Authorization Header" and "Using Query Parameters" in Amazon's documentation.
    #[test]
    fn published_examples_have_their_signatures() {
        let host = ("host", "examplebucket.s3.amazonaws.com");
        let (date, empty) = (("x-amz-date", TIME), ("x-amz-content-sha256", EMPTY_PAYLOAD));
        let presigned = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F\
                         aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host";
        let with_range: &[_] = &[host, ("range", "bytes=0-9"), empty, date];
        for (path, query, fields, payload, signature) in [
            (
                "/test.txt",
                "",
                with_range,
                EMPTY_PAYLOAD,
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "/",
                "lifecycle=",
                &[host, empty, date],
                EMPTY_PAYLOAD,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "/",
                "max-keys=2&prefix=J",
                &[host, empty, date],
                EMPTY_PAYLOAD,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
            (
                "/test.txt",
                presigned,
                &[host],
                UNSIGNED_PAYLOAD,
                "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404",
            ),
        ] {
            let request = S3Request { method: "GET", path, query, fields, payload };
            assert_eq!(key().signature(&request, TIME).unwrap(), signature, "{path}?{query}");
        }
    }

    #[test]
    fn the_field_of_a_request_names_key_scope_and_signed_fields() {
        let fields = &[("host", "h"), ("x-amz-date", TIME)];
        let request = S3Request { method: "GET", path: "/b/k", query: "", fields, payload: UNSIGNED_PAYLOAD };
        let key = AccessKey::new("id", "secret", Some("token"), Some("eu-west-1"));
        let value = key.authorization(&request, TIME).unwrap();
        let start = "AWS4-HMAC-SHA256 Credential=id/20130524/eu-west-1/s3/aws4_request,SignedHeaders=host;x-amz-date,Signature=";
        assert!(value.starts_with(start) && value.len() == start.len() + 64, "{value}");
        assert_eq!(format!("{key:?}"), "AccessKey(id)");
    }

    #[test]
    fn keys_are_read_by_the_name_of_their_profile() {
        let file = b"# comment\n[default]\naws_access_key_id = A\naws_secret_access_key=S=\n\n[ other ]\naws_access_key_id=B\n\
            ;aws_access_key_id=C\naws_secret_access_key = T\naws_session_token = tok\nregion = r\n[half]\naws_access_key_id = A\n";
        let read = |profile, region| AccessKey::parse(file, profile, region);
        let key = read("default", None).unwrap();
        assert_eq!((key.id.as_str(), key.secret.as_str(), key.session_token()), ("A", "S=", None));
        assert_eq!(key.region, REGION_DEFAULT);
        let key = read("other", None).unwrap();
        assert_eq!((key.id.as_str(), key.session_token(), key.region.as_str()), ("B", Some("tok"), "r"));
        assert_eq!(read("other", Some("mine")).unwrap().region, "mine");
        assert_eq!(read("half", None).unwrap_err(), AccessKeyError::Incomplete("half".to_owned()));
        assert_eq!(read("none", None).unwrap_err(), AccessKeyError::NoProfile("none".to_owned()));
        assert_eq!(AccessKey::parse(&[0xff], "default", None).unwrap_err(), AccessKeyError::NotText);
        let long = vec![b'\n'; ACCESS_KEYS_LEN_MAX + 1];
        assert_eq!(AccessKey::parse(&long, "default", None).unwrap_err(), AccessKeyError::NotText);
    }
}
