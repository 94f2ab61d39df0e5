//! Size and validator of a file, as `HEAD` and the properties of WebDAV state them.

use crate::{
    answer::{
        facts::{size_in, validator_in},
        multistatus::Resource,
    },
    exchange::{Answer, Failure, protocol},
    http_origin::HttpOrigin,
    request::Question,
    target::Target,
};
use forebay_origin::{OriginError, OriginPath, RefusalKind};
use forebay_types::{ByteRange, Endpoint, OriginId, Validator};
use hyper::StatusCode;
use std::sync::atomic::Ordering::Relaxed;
use tokio::time::Instant;

/// Size and validator of a file, and the URL that gave them.
pub(crate) struct Head {
    pub(crate) size: u64,
    pub(crate) validator: Validator,
    pub(crate) target: Target,
}

impl HttpOrigin {
    /// Size and validator of a file. If `HEAD` states no validator, as at XrdHttp, it is the time of change among the properties.
    pub(crate) async fn head(&self, server: &OriginId, path: &OriginPath, deadline: Instant) -> Result<Head, Failure> {
        let may_ask = || !self.is_s3() && self.has_webdav.load(Relaxed);
        if self.heads_lack_validators.load(Relaxed) && may_ask() {
            // Side by side, which takes one round trip.
            let head = self.head_alone(server, path, deadline);
            let (head, resource) = tokio::join!(head, self.resource(server, path, deadline));
            let head = head?;
            if !head.validator.is_empty() {
                self.heads_lack_validators.store(false, Relaxed);
                return Ok(head);
            }
            return self.with_properties(head, resource?);
        }
        let head = self.head_alone(server, path, deadline).await?;
        if !head.validator.is_empty() || !may_ask() {
            return Ok(head);
        }
        self.heads_lack_validators.store(true, Relaxed);
        let resource = self.resource(server, path, deadline).await?;
        self.with_properties(head, resource)
    }

    /// The properties of a path, if the origin states any: who may read a file may not always ask for them.
    async fn resource(
        &self,
        server: &OriginId,
        path: &OriginPath,
        deadline: Instant,
    ) -> Result<Option<Resource>, Failure> {
        match self.properties(server, path, &Question::Properties, deadline).await {
            Ok((_, resources)) => Ok(resources.into_iter().next()),
            Err(failure) if failure.error.is_retryable() && self.has_times.load(Relaxed) => Err(failure),
            Err(_) => Ok(None),
        }
    }

    /// The head of a file with the time of change among its properties.
    fn with_properties(&self, head: Head, resource: Option<Resource>) -> Result<Head, Failure> {
        match resource {
            // XrdHttp answers `HEAD` with the size of a directory as with that of a file.
            Some(Resource { is_directory: true, .. }) => Err(is_directory(head.target.endpoint().clone()).into()),
            // Of another size, it may be another content.
            Some(Resource { size: Some(size), mtime: Some(mtime), .. }) if size == head.size => {
                self.has_times.store(true, Relaxed);
                Ok(Head { validator: Validator::of_mtime(mtime), ..head })
            }
            _ => Ok(head),
        }
    }

    /// Size and validator of a file, by `HEAD`, or by its first byte where that is not possible.
    async fn head_alone(&self, server: &OriginId, path: &OriginPath, deadline: Instant) -> Result<Head, Failure> {
        let target = Target::new(server, path);
        let answer = self.client.ask(&target, path, &Question::Head, deadline).await?;
        // Presigned URLs are for one method; some servers compute a length only when they send bytes.
        let needs_bytes = matches!(answer.status.as_u16(), 403 | 405 | 501)
            || (answer.status.is_success() && size_in(&answer.headers).is_none());
        if !needs_bytes {
            return self.read_head(answer).await;
        }
        answer.body.finish().await;
        let first_byte = Question::Get { ranges: vec![ByteRange::at(0, 1)], etag: None };
        let answer = self.client.ask(&target, path, &first_byte, deadline).await?;
        self.read_head(answer).await
    }

    pub(crate) async fn read_head(&self, answer: Answer) -> Result<Head, Failure> {
        let endpoint = answer.endpoint().clone();
        if answer.is_of_directory() {
            return Err(is_directory(endpoint).into());
        }
        let is_empty = answer.status == StatusCode::RANGE_NOT_SATISFIABLE;
        if !answer.status.is_success() && !is_empty {
            return Err(answer.refuse(&self.client.options).await);
        }
        let size = if is_empty { Some(0) } else { size_in(&answer.headers) };
        let size = size.ok_or_else(|| protocol(&endpoint, "it does not state the size of the file"))?;
        let head = Head { size, validator: validator_in(&answer.headers), target: answer.target.clone() };
        answer.body.finish().await;
        Ok(head)
    }
}

pub(crate) fn is_directory(endpoint: Endpoint) -> OriginError {
    OriginError::Refused { endpoint, kind: RefusalKind::IsDirectory, text: "it is a directory".to_owned() }
}
