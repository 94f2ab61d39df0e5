//! Directories of S3 servers, which are made of keys.

use crate::{
    answer::objects::{self, Object},
    exchange::{Failure, protocol},
    http_origin::HttpOrigin,
    options::LISTING_LEN_MAX,
    request::Question,
    target::{Target, s3_value, server_of},
};
use forebay_origin::{OriginError, OriginPath, RefusalKind};
use forebay_types::{DirEntry, FileKind, FileStat, OriginId, Scheme, Validator};
use std::sync::Arc;
use tokio::time::Instant;

/// Most entries of a directory, as in listings of WebDAV.
const ENTRIES_MAX: usize = 200_000;

/// Keys of one answer; servers send no more.
const KEYS_PER_ANSWER: u32 = 1000;

/// The name of a directory among the keys of a bucket, and the URL of the bucket.
struct Directory {
    bucket: Target,
    /// Empty, or with a slash at its end.
    prefix: String,
}

impl Directory {
    /// The bucket is the first component of the origin's base; without one it is a part of the name of the host.
    fn of(server: &OriginId, path: &OriginPath) -> Self {
        let base = server.base().trim_start_matches('/');
        let (bucket, rest) = base.split_once('/').unwrap_or((base, ""));
        let key = format!("{rest}{}", path.lfn.as_str()).trim_matches('/').to_owned();
        let prefix = if key.is_empty() { key } else { format!("{key}/") };
        Self { bucket: Target { server: server_of(server), path_and_query: format!("/{bucket}") }, prefix }
    }

    /// The request for its entries, or for one key in it. The parameters are sorted, as they are signed.
    fn request(&self, keys_max: u32, continuation: Option<&str>) -> Target {
        let continuation =
            continuation.map(|token| format!("continuation-token={}&", s3_value(token))).unwrap_or_default();
        let (path, prefix) = (&self.bucket.path_and_query, s3_value(&self.prefix));
        let query =
            format!("{continuation}delimiter=%2F&encoding-type=url&list-type=2&max-keys={keys_max}&prefix={prefix}");
        Target { server: self.bucket.server.clone(), path_and_query: format!("{path}?{query}") }
    }
}

impl HttpOrigin {
    pub(crate) fn is_s3(&self) -> bool {
        self.client.first.scheme == Scheme::S3
    }

    /// Whether there are keys below a path.
    pub(crate) async fn has_objects_below(&self, path: &OriginPath) -> Result<bool, OriginError> {
        let attempt = |server, deadline| self.objects(Directory::of(server, path), 1, path, deadline);
        Ok(!self.client.with_servers(attempt).await?.0.is_empty())
    }

    /// Whether a path without a key is a directory. If the server refuses the listing, its first answer counts.
    pub(crate) async fn is_prefix(&self, path: &OriginPath) -> Result<bool, OriginError> {
        match self.has_objects_below(path).await {
            Err(error) if error.refusal().is_some_and(|kind| !kind.is_retryable()) => Ok(false),
            answered => answered,
        }
    }

    /// The entries of a directory; none is one that does not exist.
    pub(crate) async fn list_objects(&self, path: &OriginPath) -> Result<Vec<DirEntry>, OriginError> {
        let attempt = |server, deadline| self.all_objects(server, path, deadline);
        let ((entries, has_marker), server) = self.client.with_servers(attempt).await?;
        if entries.is_empty() && !has_marker && path.lfn.as_str() != "/" {
            let (endpoint, text) = (server.endpoint.clone(), "there are no keys below it".to_owned());
            return Err(OriginError::Refused { endpoint, kind: RefusalKind::NotFound, text });
        }
        Ok(entries)
    }

    /// The entries of a directory, and whether it has a key of its own.
    async fn all_objects(
        &self,
        server: &OriginId,
        path: &OriginPath,
        deadline: Instant,
    ) -> Result<(Vec<DirEntry>, bool), Failure> {
        let directory = Directory::of(server, path);
        let prefix = directory.prefix.clone();
        let objects = self.objects(directory, KEYS_PER_ANSWER, path, deadline).await?;
        let has_marker = objects.iter().any(|object| object.key == prefix);
        Ok((objects.iter().filter_map(|object| entry_of(object, &prefix)).collect(), has_marker))
    }

    /// The keys of a directory: all of them, or the first ones if fewer than [`KEYS_PER_ANSWER`] are wanted.
    async fn objects(
        &self,
        directory: Directory,
        keys_max: u32,
        path: &OriginPath,
        deadline: Instant,
    ) -> Result<Vec<Object>, Failure> {
        let (mut found, mut continuation) = (Vec::new(), None::<String>);
        loop {
            let target = directory.request(keys_max, continuation.as_deref());
            let answer = self.client.ask(&target, path, &Question::Objects, deadline).await?;
            if !answer.status.is_success() {
                return Err(answer.refuse(&self.client.options).await);
            }
            let endpoint = answer.endpoint().clone();
            let xml = answer.body.whole(LISTING_LEN_MAX).await?;
            let part = objects::parse(&xml).map_err(|what| protocol(&endpoint, format!("its listing: {what}")))?;
            if found.len() + part.entries.len() > ENTRIES_MAX {
                return Err(protocol(&endpoint, format!("a directory has more than {ENTRIES_MAX} entries")).into());
            }
            found.extend(part.entries);
            continuation = part.continuation;
            if continuation.is_none() || keys_max < KEYS_PER_ANSWER {
                return Ok(found);
            }
        }
    }
}

/// The entry of a directory that a key is; `None` for the directory's own, and for names that no path can have.
fn entry_of(object: &Object, prefix: &str) -> Option<DirEntry> {
    let rest = object.key.strip_prefix(prefix)?;
    let name = rest.strip_suffix('/').unwrap_or(rest);
    if name.is_empty() || name.contains('/') || matches!(name, "." | "..") {
        return None;
    }
    let is_directory = rest.ends_with('/');
    Some(DirEntry { name: name.to_owned(), stat: Some(stat_of(object, is_directory)), checksum: None })
}

fn stat_of(object: &Object, is_directory: bool) -> FileStat {
    FileStat {
        id: 0,
        kind: if is_directory { FileKind::Directory } else { FileKind::File },
        size: object.size,
        mtime: object.mtime.unwrap_or_default(),
        readable: true,
        executable: is_directory,
        offline: false,
        cached: false,
        access: None,
        // Reads have it from the answers with bytes.
        validator: Some(Arc::new(Validator::default())),
    }
}

/// The stat of a directory, which has neither a size nor a time.
pub(crate) fn stat_of_directory() -> FileStat {
    stat_of(&Object::default(), true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_origin::DelegatedCredentials;
    use forebay_types::Lfn;

    #[test]
    fn directories_are_prefixes_in_the_bucket_of_the_origin() {
        for (origin, lfn, bucket, prefix) in [
            ("s3://h:9000/bucket", "/", "/bucket", ""),
            ("s3://h:9000/bucket", "/a b/c", "/bucket", "a b/c/"),
            ("s3://h:9000/bucket/base/x", "/a", "/bucket", "base/x/a/"),
            ("s3://bucket.s3.example", "/a", "/", "a/"),
        ] {
            let path = OriginPath {
                lfn: Lfn::parse(lfn).unwrap(),
                cgi: String::new(),
                delegation: DelegatedCredentials::default(),
            };
            let directory = Directory::of(&origin.parse().unwrap(), &path);
            assert_eq!((directory.bucket.path_and_query.as_str(), directory.prefix.as_str()), (bucket, prefix));
            let query = directory.request(1000, Some("a=b")).path_and_query;
            let parameters: Vec<&str> = query.split_once('?').unwrap().1.split('&').collect();
            assert!(parameters.is_sorted() && parameters.contains(&"continuation-token=a%3Db"), "{query}");
        }
    }

    #[test]
    fn keys_that_are_no_names_are_left_out() {
        let name = |key: &str| {
            let object = Object { key: key.to_owned(), ..Object::default() };
            entry_of(&object, "d/").map(|entry| (entry.name, entry.stat.unwrap().kind))
        };
        assert_eq!(name("d/a"), Some(("a".to_owned(), FileKind::File)));
        assert_eq!(name("d/a/"), Some(("a".to_owned(), FileKind::Directory)));
        for key in ["d/", "x", "d/a/b", "d//", "d/..", "d/../"] {
            assert_eq!(name(key), None, "{key}");
        }
    }
}
