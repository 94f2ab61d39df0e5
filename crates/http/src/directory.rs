//! Directories: PROPFIND of WebDAV, and listings for browsers and programs.

use crate::{
    error_answers::ErrorAnswer,
    identity::Admitted,
    request::{Broken, Context},
};
use forebay_auth::Right;
use forebay_engine::{Engine, ListDetail};
use forebay_http_proto::{
    Answer, CLOSING, Entry, Framing, Head, OPENING, Resource, Status, Target, append_response, encode_path, etag_of,
    has_token, html_listing, json_listing,
};
use forebay_types::{DirEntry, FileKind, FileStat};

/// Entries after which other tasks get their turn: a directory may have a million.
const ENTRIES_PER_TURN: usize = 1024;

/// The answer to `Depth: infinity`.
const FINITE_DEPTH: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:error xmlns:D=\"DAV:\"><D:propfind-finite-depth/></D:error>\n";

const XML: &str = "application/xml; charset=\"utf-8\"";

/// The part of a tree that a PROPFIND is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Depth {
    Itself,
    WithEntries,
    Infinity,
}

impl Context {
    pub(crate) async fn propfind(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        match Box::pin(self.properties(head, target)).await {
            Ok(Some(text)) => {
                self.write_text(head, Answer::new(Status::MULTI_STATUS, Framing::None), XML, &text);
                Ok(Ok(()))
            }
            Ok(None) => {
                self.write_text(head, Answer::new(Status::FORBIDDEN, Framing::None), XML, FINITE_DEPTH);
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error)),
        }
    }

    /// The properties of a path, and of its entries if they are asked for; `None` if those of a whole tree are.
    async fn properties(&mut self, head: &Head<'_>, target: &Target<'_>) -> Result<Option<String>, ErrorAnswer> {
        let depth = depth_of(head)?;
        let engine = self.engine()?;
        let Admitted { request, caller } = self.admit(head, target, Right::Stat).await?;
        let stat = engine.stat(&request, &caller).await?;
        let is_directory = stat.kind == FileKind::Directory;
        if is_directory && depth == Depth::Infinity {
            return Ok(None);
        }
        let path = request.lfn.as_str().to_owned();
        let mut text = OPENING.to_owned();
        // Clients take the first one for the directory itself, and drop it.
        append(&path, Some(&stat), &mut text);
        if is_directory && depth == Depth::WithEntries {
            let base = if path == "/" { "" } else { &path };
            for (number, entry) in self.entries(head, target, &engine).await?.iter().enumerate() {
                if number % ENTRIES_PER_TURN == 0 {
                    tokio::task::yield_now().await;
                }
                append(&format!("{base}/{}", entry.name), entry.stat.as_ref(), &mut text);
            }
        }
        text.push_str(CLOSING);
        Ok(Some(text))
    }

    /// Answers a GET of a directory: with a page of links, or with a line of JSON per entry.
    pub(crate) async fn list_as_page(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        let is_json = has_token(head.values("accept"), "application/json");
        if !is_json && !target.path.ends_with('/') {
            self.add_slash(head, target);
            return Ok(Ok(()));
        }
        let engine = match self.engine() {
            Ok(engine) => engine,
            Err(error) => return Ok(Err(error)),
        };
        let entries = match self.entries(head, target, &engine).await {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(error)),
        };
        let listed = entries.iter().map(|entry| Entry {
            name: &entry.name,
            is_directory: entry.stat.as_ref().is_some_and(|stat| stat.kind == FileKind::Directory),
            size: entry.stat.as_ref().filter(|stat| stat.kind != FileKind::Directory).map(|stat| stat.size),
            mtime: entry.stat.as_ref().map(|stat| stat.mtime),
        });
        let answer = Answer::new(Status::OK, Framing::None);
        if is_json {
            self.write_text(head, answer, "application/json", &json_listing(listed));
        } else {
            let answer = answer.with("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
            self.write_text(head, answer, "text/html; charset=utf-8", &html_listing(&target.path, listed));
        }
        Ok(Ok(()))
    }

    /// Redirects the client to the path with a slash at its end: links in the page are relative to the directory. The query is left out,
    /// because it may hold a token.
    pub(crate) fn add_slash(&mut self, head: &Head<'_>, target: &Target<'_>) {
        let location = format!("{}/", encode_path(&target.path));
        let answer = Answer::new(Status::MOVED, Framing::None).with("Location", location);
        self.write_text(head, answer, "text/plain; charset=utf-8", "this is a directory\n");
    }

    /// The entries of a directory that the client may see.
    async fn entries(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
        engine: &Engine,
    ) -> Result<Vec<DirEntry>, ErrorAnswer> {
        let Admitted { request, caller } = self.admit(head, target, Right::List).await?;
        let listing = engine.list(&request, &caller, ListDetail::Stats).await?;
        let front = &self.state.front;
        let mut seen = Vec::with_capacity(listing.entries.len());
        for (number, entry) in listing.entries.into_iter().enumerate() {
            if number % ENTRIES_PER_TURN == 0 {
                tokio::task::yield_now().await;
            }
            // Entries that the client may not see are left out: an error would reveal that they exist.
            if !front.gate.has_rules() || front.allows_entry(&caller, Right::Stat, &request.lfn, &entry.name) {
                seen.push(entry);
            }
        }
        Ok(seen)
    }
}

/// Appends a path with the properties that are known.
fn append(path: &str, stat: Option<&FileStat>, text: &mut String) {
    let is_directory = stat.is_some_and(|stat| stat.kind == FileKind::Directory);
    let (size, mtime) = stat.map_or((0, 0), |stat| (stat.size, stat.mtime));
    let etag = etag_of(size, mtime);
    append_response(&Resource { path, is_directory, size, mtime, etag: Some(&etag) }, text);
}

/// XrdClHttp and webdav4 send no depth, and mean 0; the standard says infinity.
fn depth_of(head: &Head<'_>) -> Result<Depth, ErrorAnswer> {
    match head.field("depth").map(str::trim) {
        None | Some("0") => Ok(Depth::Itself),
        Some("1") => Ok(Depth::WithEntries),
        Some(value) if value.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
        Some(_) => Err(ErrorAnswer::of_client(Status::BAD_REQUEST, "Depth is 0, 1 or infinity")),
    }
}
