//! The meaning of a request of S3.

use super::listing::ListRequest;
use crate::{head::Method, status::Status, target::Target};

/// The bucket and the key that a request names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectName {
    pub bucket: String,
    /// Empty for the bucket itself.
    pub key: String,
}

/// A request of S3 that this server answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Operation {
    ListBuckets,
    HeadBucket,
    Location,
    List(ListRequest),
    GetObject,
    HeadObject,
}

/// A refusal, as clients of S3 distinguish them.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text}")]
pub struct S3Error {
    pub status: Status,
    pub code: &'static str,
    pub text: &'static str,
}

/// Parameters that select a part of a bucket or an object which this server does not have.
const OTHER_PARTS: [&str; 34] = [
    "accelerate",
    "acl",
    "analytics",
    "attributes",
    "cors",
    "encryption",
    "intelligent-tiering",
    "inventory",
    "legal-hold",
    "lifecycle",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "ownershipControls",
    "partNumber",
    "policy",
    "policyStatus",
    "publicAccessBlock",
    "replication",
    "requestPayment",
    "restore",
    "retention",
    "select",
    "session",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versioning",
    "versions",
    "website",
    "append",
    "delete",
];

impl ObjectName {
    /// The name in the path of a request; `None` if it is for the service itself. `bucket` is that of the name of the server, if there is one.
    pub fn of(path: &str, bucket: Option<&str>) -> Option<Self> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if let Some(bucket) = bucket {
            return Some(Self { bucket: bucket.to_owned(), key: path.to_owned() });
        }
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        if bucket.is_empty() { None } else { Some(Self { bucket: bucket.to_owned(), key: key.to_owned() }) }
    }
}

/// The operation that a request is for.
///
/// # Errors
/// For operations that this server does not have, among them all that change something.
pub fn operation_of(method: Method, name: Option<&ObjectName>, target: &Target<'_>) -> Result<Operation, S3Error> {
    let is_get = match method {
        Method::Get => true,
        Method::Head => false,
        Method::Options | Method::Propfind | Method::Post | Method::NotAllowed | Method::Unknown => {
            return Err(S3Error::new(405, "MethodNotAllowed", "this server does not change files: use GET or HEAD"));
        }
    };
    if OTHER_PARTS.iter().any(|part| target.has_parameter(part)) {
        return Err(S3Error::new(501, "NotImplemented", "this server has objects and listings only"));
    }
    if target.parameter("versionId").is_some_and(|version| version != "null") {
        return Err(S3Error::new(501, "NotImplemented", "this server has no versions of objects"));
    }
    match name {
        None if is_get => Ok(Operation::ListBuckets),
        None => Err(S3Error::new(405, "MethodNotAllowed", "the request names no bucket")),
        Some(ObjectName { key, .. }) if !key.is_empty() => {
            Ok(if is_get { Operation::GetObject } else { Operation::HeadObject })
        }
        Some(_) if !is_get => Ok(Operation::HeadBucket),
        Some(_) if target.has_parameter("location") => Ok(Operation::Location),
        Some(_) => ListRequest::of(target).map(Operation::List),
    }
}

impl S3Error {
    pub(crate) const fn new(status: u16, code: &'static str, text: &'static str) -> Self {
        Self { status: Status(status), code, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(method: Method, target: &str) -> Result<Operation, &'static str> {
        let target = Target::parse(target).unwrap();
        let name = ObjectName::of(&target.path, None);
        operation_of(method, name.as_ref(), &target).map_err(|error| error.code)
    }

    #[test]
    fn requests_are_for_the_service_a_bucket_or_an_object() {
        assert_eq!(operation(Method::Get, "/"), Ok(Operation::ListBuckets));
        assert_eq!(operation(Method::Head, "/b"), Ok(Operation::HeadBucket));
        assert_eq!(operation(Method::Head, "/b/"), Ok(Operation::HeadBucket));
        assert_eq!(operation(Method::Get, "/b?location"), Ok(Operation::Location));
        assert!(matches!(operation(Method::Get, "/b/?list-type=2"), Ok(Operation::List(_))));
        assert_eq!(operation(Method::Get, "/b/k?versionId=null"), Ok(Operation::GetObject));
        assert_eq!(operation(Method::Head, "/b/k/"), Ok(Operation::HeadObject));
    }

    #[test]
    fn everything_else_is_refused() {
        for target in ["/b/k?versionId=3", "/b?versions", "/b/k?acl", "/b?uploads=", "/b/k?partNumber=1"] {
            assert_eq!(operation(Method::Get, target), Err("NotImplemented"), "{target}");
        }
        for method in [Method::NotAllowed, Method::Post, Method::Propfind, Method::Options, Method::Unknown] {
            assert_eq!(operation(method, "/b/k"), Err("MethodNotAllowed"));
        }
        assert_eq!(operation(Method::Head, "/"), Err("MethodNotAllowed"));
    }

    #[test]
    fn the_bucket_is_in_the_path_or_in_the_name_of_the_server() {
        let name = |bucket: &str, key: &str| Some(ObjectName { bucket: bucket.to_owned(), key: key.to_owned() });
        for (path, bucket, expected) in [
            ("/b/a/c", None, name("b", "a/c")),
            ("/b", None, name("b", "")),
            ("/b//c", None, name("b", "/c")),
            ("/", None, None),
            ("/a/c", Some("b"), name("b", "a/c")),
            ("/", Some("b"), name("b", "")),
        ] {
            assert_eq!(ObjectName::of(path, bucket), expected, "{path}");
        }
    }
}
