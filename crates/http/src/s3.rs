//! The S3 dialect: requests for buckets and keys are answered from the same files.

use crate::{
    error_answers::ErrorAnswer,
    options::S3,
    request::{Broken, Context},
    wire::Wire,
};
use forebay_auth::{Identity, Right, SignatureError, SignedRequest, UnixTime};
use forebay_engine::{Caller, Client, Delegation};
use forebay_front::FailureKind;
use forebay_http_proto::{
    Answer, Framing, Head, Method, Status, Target,
    s3::{ListRequest, ObjectName, Operation, buckets_document, list_document, location_document, operation_of},
};
use forebay_types::FileKind;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The signer of a request of S3, and the file that it names.
#[derive(Clone)]
pub(crate) struct Signer {
    /// The id of the access key.
    pub(crate) key_id: String,
    pub(crate) caller: Arc<Caller>,
}

pub(crate) const XML: &str = "application/xml";

/// Number of the next request, by which the log and the answer name it.
static NEXT_REQUEST: AtomicU64 = AtomicU64::new(1);

/// A number for a request: different ones for all requests of this process.
pub(crate) fn request_id() -> String {
    format!("{:016X}", NEXT_REQUEST.fetch_add(1, Ordering::Relaxed))
}

impl S3 {
    /// The directory of a bucket.
    pub(crate) fn directory(&self, bucket: &str) -> Option<&str> {
        let found = self.buckets.iter().find(|known| known.name == bucket)?;
        Some(found.path.as_str().trim_end_matches('/'))
    }

    /// The bucket that the name of the server contains.
    fn bucket_of_host<'a>(&self, head: &Head<'a>) -> Option<&'a str> {
        let host = head.field("host")?;
        let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
        host.strip_suffix(self.domain.as_deref()?)?.strip_suffix('.')
    }
}

impl<W: Wire> Context<W> {
    /// Answers a request of S3.
    pub(crate) async fn dispatch_s3(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        if head.method == Method::Options {
            self.options(head);
            return Ok(Ok(()));
        }
        let state = Arc::clone(&self.peer.state);
        let Some(s3) = &state.options.s3 else {
            return Ok(Err(not_found("NoSuchBucket", "there are no buckets here")));
        };
        let name = ObjectName::of(&target.path, s3.bucket_of_host(head));
        let operation = match operation_of(head.method, name.as_ref(), target) {
            Ok(operation) => operation,
            Err(error) => return Ok(Err(ErrorAnswer::of_client(error.status, error.text).with_code(error.code))),
        };
        self.signer = match Box::pin(self.signer_of(head)).await {
            Ok(signer) => signer,
            Err(error) => return Ok(Err(error)),
        };
        let Some(ObjectName { bucket, key }) = name else { return Ok(self.list_buckets(head, s3).await) };
        let Some(directory) = s3.directory(&bucket) else {
            return Ok(Err(not_found("NoSuchBucket", "there is no such bucket")));
        };
        let file = Target { path: format!("{directory}/{key}"), query: target.query };
        match operation {
            Operation::GetObject | Operation::HeadObject if !names_one_file(&key) => {
                Ok(Err(not_found("NoSuchKey", "there is no such key")))
            }
            Operation::GetObject => self.get(head, &file).await,
            Operation::HeadObject => Ok(self.head(head, &file).await),
            Operation::HeadBucket => Ok(self.head_bucket(head, &file).await),
            Operation::Location => Ok(self.locate_bucket(head, &file).await),
            Operation::List(request) => Ok(self.list_keys(head, &bucket, directory, &request).await),
            Operation::ListBuckets => Ok(self.list_buckets(head, s3).await),
        }
    }

    /// The owner of the key that a request is signed with; `None` if it is not signed.
    async fn signer_of(&self, head: &Head<'_>) -> Result<Option<Signer>, ErrorAnswer> {
        let Some((key_id, identity)) = self.check_signature(head)? else { return Ok(None) };
        let login = self.login(&self.peer, head).await?;
        let organization = identity.organization().map(str::to_owned);
        let user = identity.user.clone().unwrap_or_default();
        // A key is a secret between the client and this server: there is nothing to show to an origin.
        let client = Arc::new(Client { user, organization, ..(*login.caller.client).clone() });
        let caller = Arc::new(Caller { client, identity, delegation: Delegation::Client(None) });
        Ok(Some(Signer { key_id, caller }))
    }

    /// The key that a request is signed with, and the identity of its owner.
    fn check_signature(&self, head: &Head<'_>) -> Result<Option<(String, Identity)>, ErrorAnswer> {
        let field = |name: &str| {
            let values: Vec<&str> = head.values(name).collect();
            if values.is_empty() { None } else { Some(values.join(",")) }
        };
        let (path, query) = head.target.split_once('?').unwrap_or((head.target, ""));
        let request = SignedRequest { method: head.method.as_str(), path, query, field: &field };
        let front = &self.peer.state.front;
        let now = UnixTime(forebay_net::clock::now_unix());
        front.gate.signer(&request, &self.facts(), now).map_err(|error| {
            self.peer.note_refused_token();
            if front.refusal_log.has_room() {
                tracing::warn!(peer = %self.peer.address, reason = %error, "a signature was refused");
            }
            ErrorAnswer::of_client(Status::FORBIDDEN, error.to_string()).with_code(code_of(error))
        })
    }

    /// Lists the buckets that the client may see.
    async fn list_buckets(&mut self, head: &Head<'_>, s3: &S3) -> Result<(), ErrorAnswer> {
        let mut seen = Vec::new();
        for bucket in &s3.buckets {
            let directory = Target { path: bucket.path.as_str().to_owned(), query: "" };
            match Box::pin(self.admit(head, &directory, Right::Stat)).await {
                Ok(_) => seen.push(bucket.name.as_str()),
                Err(error) if error.kind == Some(FailureKind::NotAuthorized) => {}
                Err(error) => return Err(error),
            }
        }
        self.write_xml(head, &buckets_document(seen.into_iter()));
        Ok(())
    }

    async fn head_bucket(&mut self, head: &Head<'_>, directory: &Target<'_>) -> Result<(), ErrorAnswer> {
        self.find_bucket(head, directory).await?;
        self.write_head(head, Answer::new(Status::OK, Framing::Length(0)).with("x-amz-bucket-region", "us-east-1"));
        Ok(())
    }

    async fn locate_bucket(&mut self, head: &Head<'_>, directory: &Target<'_>) -> Result<(), ErrorAnswer> {
        self.find_bucket(head, directory).await?;
        self.write_xml(head, &location_document());
        Ok(())
    }

    /// Makes sure that the directory of a bucket exists.
    async fn find_bucket(&mut self, head: &Head<'_>, directory: &Target<'_>) -> Result<(), ErrorAnswer> {
        let engine = self.engine()?;
        let admitted = Box::pin(self.admit(head, directory, Right::Stat)).await?;
        match engine.stat(&admitted.request, &admitted.caller).await {
            Ok(stat) if stat.kind == FileKind::Directory => Ok(()),
            Ok(_) => Err(not_found("NoSuchBucket", "the bucket is not a directory")),
            Err(error) => {
                let error = ErrorAnswer::from(error);
                if error.status == Status::NOT_FOUND { Err(error.with_code("NoSuchBucket")) } else { Err(error) }
            }
        }
    }

    async fn list_keys(
        &mut self,
        head: &Head<'_>,
        bucket: &str,
        directory: &str,
        request: &ListRequest,
    ) -> Result<(), ErrorAnswer> {
        let page = Box::pin(self.keys_of(head, directory, request)).await?;
        self.write_xml(head, &list_document(bucket, request, &page));
        Ok(())
    }

    fn write_xml(&mut self, head: &Head<'_>, text: &str) {
        self.write_text(head, Answer::new(Status::OK, Framing::None), XML, text);
    }
}

/// Whether a key can be the path of a file. Other servers have keys such as `a//b` and `../a`; a path would name another file.
pub(crate) fn names_one_file(key: &str) -> bool {
    // Of a path the former begins the parameters, and the latter ends it.
    !key.contains(['?', '\0']) && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

fn not_found(code: &'static str, text: &'static str) -> ErrorAnswer {
    ErrorAnswer::of_client(Status::NOT_FOUND, text).with_code(code)
}

const fn code_of(error: SignatureError) -> &'static str {
    match error {
        SignatureError::Malformed(_) => "AuthorizationHeaderMalformed",
        SignatureError::Version => "InvalidRequest",
        SignatureError::UnknownKey => "InvalidAccessKeyId",
        SignatureError::Skewed => "RequestTimeTooSkewed",
        SignatureError::Expired => "AccessDenied",
        SignatureError::Mismatch => "SignatureDoesNotMatch",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_would_name_another_file_name_none() {
        for key in ["a", "a/b", "a b/.c", "..."] {
            assert!(names_one_file(key), "{key}");
        }
        for key in ["", "/", "a/", "/a", "a//b", "a/./b", "..", "a/../b", "a?b=c", "a\0"] {
            assert!(!names_one_file(key), "{key}");
        }
    }
}
