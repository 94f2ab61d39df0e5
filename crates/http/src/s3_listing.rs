//! The keys of a bucket, from the directories below it.

use crate::{error_answers::ErrorAnswer, request::Context, s3::names_one_file, wire::Wire};
use forebay_auth::Right;
use forebay_engine::{ListDetail, Listing};
use forebay_front::FailureKind;
use forebay_http_proto::{
    Head, Status, Target, etag_of,
    s3::{ListRequest, Listed, Page},
};
use forebay_types::{DirEntry, FileKind};

/// Directories that one answer lists. A client continues where the answer ends, with few keys or none.
const DIRECTORIES_MAX: usize = 256;

/// Deepest directory below a bucket that is listed: beyond it there is a loop at the origin.
const DEPTH_MAX: usize = 64;

/// A directory whose entries are being listed.
struct Level {
    /// Its key, which is empty for the bucket and otherwise ends with a slash.
    key: String,
    listing: Listing,
    /// Numbers of its entries in the order of their keys, the last one first.
    order: Vec<u32>,
}

impl<W: Wire> Context<W> {
    /// The keys that a request asks for.
    pub(crate) async fn keys_of(
        &mut self,
        head: &Head<'_>,
        bucket: &str,
        request: &ListRequest,
    ) -> Result<Page, ErrorAnswer> {
        let mut page = Page::default();
        // The keys of a directory have its name and a slash in front: no other directory has any of them.
        let start = request.prefix.rfind('/').map_or("", |end| request.prefix.get(..=end).unwrap_or_default());
        if request.keys_max == 0 || !(start.is_empty() || names_one_file(start.trim_end_matches('/'))) {
            return Ok(page);
        }
        let mut levels: Vec<Level> = self.level(head, bucket, start.to_owned(), true).await?.into_iter().collect();
        let mut directories_len = 1;
        while let Some(level) = levels.last_mut() {
            let Some((entry, key)) = level.next() else {
                levels.pop();
                continue;
            };
            let is_directory = key.ends_with('/');
            if !key.starts_with(&request.prefix) || (is_directory && is_passed(&key, request)) {
                continue;
            }
            if is_directory && !request.is_by_directory {
                if directories_len >= DIRECTORIES_MAX {
                    page.next = Some(key);
                    break;
                }
                directories_len += 1;
                if levels.len() < DEPTH_MAX {
                    levels.extend(self.level(head, bucket, key, false).await?);
                }
                continue;
            }
            if key.as_str() <= request.after.as_str() {
                continue;
            }
            let listed = if is_directory { Some(Listed::Prefix(key)) } else { object_of(entry, key) };
            if page.entries.len() >= request.keys_max {
                page.next = page.entries.last().map(|last| last.key().to_owned());
                break;
            }
            page.entries.extend(listed);
        }
        Ok(page)
    }

    /// The entries of a directory that the client may see; `None` if there is no such directory, or not for this client.
    async fn level(
        &mut self,
        head: &Head<'_>,
        bucket: &str,
        key: String,
        is_first: bool,
    ) -> Result<Option<Level>, ErrorAnswer> {
        let engine = self.engine()?;
        let directory = Target { path: format!("{bucket}/{}", key.trim_end_matches('/')), query: "" };
        let admitted = match Box::pin(self.admit(head, &directory, Right::List)).await {
            Ok(admitted) => admitted,
            Err(error) if !is_first && error.kind == Some(FailureKind::NotAuthorized) => return Ok(None),
            Err(error) => return Err(error),
        };
        let listing = match engine.list(&admitted.request, &admitted.caller, ListDetail::Stats).await {
            Ok(listing) => listing,
            Err(error) => {
                // Servers of XRootD do not say that a path is that of a file.
                let found = engine.stat(&admitted.request, &admitted.caller).await;
                let is_file = matches!(found, Ok(stat) if stat.kind != FileKind::Directory);
                let error = ErrorAnswer::from(error);
                return match (is_file || error.status == Status::NOT_FOUND, is_first && key.is_empty()) {
                    (true, true) => Err(error.with_code("NoSuchBucket")),
                    (true, false) => Ok(None),
                    (false, _) => Err(error),
                };
            }
        };
        let front = &self.peer.state.front;
        let is_seen = |entry: &DirEntry| {
            names_one_file(&entry.name)
                && (!front.gate.has_rules()
                    || front.allows_entry(&admitted.caller, Right::Stat, &admitted.request.lfn, &entry.name))
        };
        let numbers = 0..u32::try_from(listing.entries.len()).unwrap_or(u32::MAX);
        let mut order: Vec<u32> =
            numbers.zip(&listing.entries).filter(|(_, entry)| is_seen(entry)).map(|(n, _)| n).collect();
        let key_of = |number: &u32| listing.entries.get(*number as usize).map(name_of).unwrap_or_default();
        order.sort_by_cached_key(|number| std::cmp::Reverse(key_of(number)));
        Ok(Some(Level { key, listing, order }))
    }
}

impl Level {
    /// The next entry, and its key.
    fn next(&mut self) -> Option<(&DirEntry, String)> {
        let entry = self.listing.entries.get(self.order.pop()? as usize)?;
        Some((entry, format!("{}{}", self.key, name_of(entry))))
    }
}

/// Whether all keys that begin with `prefix` are left out.
fn is_passed(prefix: &str, request: &ListRequest) -> bool {
    prefix < request.after.as_str() && !request.after.starts_with(prefix)
}

/// The name of an entry as keys have it: a directory's with a slash, so that `a/b` comes after `a-b`.
fn name_of(entry: &DirEntry) -> String {
    let is_directory = entry.stat.as_ref().is_some_and(|stat| stat.kind == FileKind::Directory);
    format!("{}{}", entry.name, if is_directory { "/" } else { "" })
}

/// The object that an entry is; `None` for those that are not files.
fn object_of(entry: &DirEntry, key: String) -> Option<Listed> {
    let stat = entry.stat.as_ref()?;
    let validator = stat.validator();
    let etag = etag_of(stat.size, &validator);
    Some(Listed::Object { key, size: stat.size, mtime: stat.mtime, etag })
}
