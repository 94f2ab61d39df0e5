//! Directories: PROPFIND of WebDAV, and listings for browsers and programs.

use crate::{
    error_answers::ErrorAnswer,
    identity::Admitted,
    request::{Broken, Context, takes_chunks},
    wire::Wire,
};
use forebay_auth::Right;
use forebay_engine::{Caller, ListDetail, Listing, OpenRequest};
use forebay_http_proto::{
    Answer, CLOSING, Entry, Framing, HTML_CLOSING, Head, OPENING, Resource, Status, Target, append_html, append_json,
    append_response, encode_path, etag_of, has_token, html_opening,
};
use forebay_types::{DirEntry, FileKind, FileStat};
use std::sync::Arc;

/// Text of a listing that is sent at a time. Other tasks get their turn after each.
const CHUNK_LEN: usize = 64 << 10;

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

/// The form of a listing.
#[derive(Clone, Copy)]
enum Form<'a> {
    Html,
    Json,
    /// Of the entries of this directory.
    Properties(&'a str),
}

impl<W: Wire> Context<W> {
    pub(crate) async fn propfind(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        Box::pin(self.properties(head, target)).await
    }

    /// Answers with the properties of a path, and of its entries if they are asked for.
    async fn properties(&mut self, head: &Head<'_>, target: &Target<'_>) -> Result<Result<(), ErrorAnswer>, Broken> {
        let (path, stat, depth) = match self.stat_of(head, target).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let is_directory = stat.kind == FileKind::Directory;
        if is_directory && depth == Depth::Infinity {
            self.write_text(head, Answer::new(Status::FORBIDDEN, Framing::None), XML, FINITE_DEPTH);
            return Ok(Ok(()));
        }
        let mut text = OPENING.to_owned();
        // Clients take the first one for the directory itself, and drop it.
        append(&path, Some(&stat), &mut text);
        let answer = Answer::new(Status::MULTI_STATUS, Framing::None);
        if is_directory && depth == Depth::WithEntries {
            let base = if path == "/" { "" } else { &path };
            return self
                .send_entries(head, target, answer.with("Content-Type", XML), text, Form::Properties(base))
                .await;
        }
        text.push_str(CLOSING);
        self.write_text(head, answer, XML, &text);
        Ok(Ok(()))
    }

    async fn stat_of(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<(String, FileStat, Depth), ErrorAnswer> {
        let depth = depth_of(head)?;
        let engine = self.engine()?;
        let Admitted { request, caller } = self.admit(head, target, Right::Stat).await?;
        let stat = engine.stat(&request, &caller).await?;
        Ok((request.lfn.as_str().to_owned(), stat, depth))
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
        let answer = Answer::new(Status::OK, Framing::None).with("X-Content-Type-Options", "nosniff");
        if is_json {
            let answer = answer.with("Content-Type", "application/json");
            return self.send_entries(head, target, answer, String::new(), Form::Json).await;
        }
        let answer = answer
            .with("Content-Type", "text/html; charset=utf-8")
            .with("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'");
        self.send_entries(head, target, answer, html_opening(&target.path), Form::Html).await
    }

    /// Redirects the client to the path with a slash at its end: links in the page are relative to the directory. The query is left out,
    /// because it may hold a token.
    pub(crate) fn add_slash(&mut self, head: &Head<'_>, target: &Target<'_>) {
        // Two slashes at its beginning would name another host (RFC 3986, 4.2).
        let location = format!("/{}/", encode_path(target.path.trim_start_matches('/')));
        let answer = Answer::new(Status::MOVED, Framing::None).with("Location", location);
        self.write_text(head, answer, "text/plain; charset=utf-8", "this is a directory\n");
    }

    /// Sends `opening` and the entries of a directory that the client may see. A directory may have a million: their text is sent
    /// as it is made.
    async fn send_entries(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
        mut answer: Answer,
        opening: String,
        form: Form<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        let (listing, request, caller) = match self.listing_of(head, target).await {
            Ok(listed) => listed,
            Err(error) => return Ok(Err(error)),
        };
        answer.framing = if takes_chunks(head) { Framing::Chunked { has_status: false } } else { Framing::Close };
        self.write_head(head, answer);
        let front = Arc::clone(&self.peer.state.front);
        let mut text = opening;
        for entry in &listing.entries {
            // Entries that the client may not see are left out: an error would reveal that they exist.
            if !front.gate.has_rules() || front.allows_entry(&caller, Right::Stat, &request.lfn, &entry.name) {
                append_entry(entry, form, &mut text);
            }
            if text.len() >= CHUNK_LEN {
                self.output.append_chunk(text.as_bytes());
                text.clear();
                self.output.flush(&mut self.wire).await?;
                tokio::task::yield_now().await;
            }
        }
        text.push_str(match form {
            Form::Html => HTML_CLOSING,
            Form::Json => "",
            Form::Properties(_) => CLOSING,
        });
        self.output.append_chunk(text.as_bytes());
        self.output.end_body("200: OK");
        Ok(Ok(()))
    }

    async fn listing_of(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<(Listing, OpenRequest, Arc<Caller>), ErrorAnswer> {
        let engine = self.engine()?;
        let Admitted { request, caller } = self.admit(head, target, Right::List).await?;
        let listing = engine.list(&request, &caller, ListDetail::Stats).await?;
        Ok((listing, request, caller))
    }
}

/// Appends an entry of a directory.
fn append_entry(entry: &DirEntry, form: Form<'_>, text: &mut String) {
    let is_directory = entry.stat.as_ref().is_some_and(|stat| stat.kind == FileKind::Directory);
    let size = if is_directory { None } else { entry.stat.as_ref().map(|stat| stat.size) };
    let mtime = entry.stat.as_ref().map(|stat| stat.mtime).filter(|&mtime| mtime != 0);
    let listed = Entry { name: &entry.name, is_directory, size, mtime };
    match form {
        Form::Html => append_html(&listed, text),
        Form::Json => append_json(&listed, text),
        Form::Properties(base) => append(&format!("{base}/{}", entry.name), entry.stat.as_ref(), text),
    }
}

/// Appends a path with the properties that are known.
fn append(path: &str, stat: Option<&FileStat>, text: &mut String) {
    let is_directory = stat.is_some_and(|stat| stat.kind == FileKind::Directory);
    let (size, mtime) = stat.map_or((0, 0), |stat| (stat.size, stat.mtime));
    let etag = stat.and_then(|stat| etag_of(size, &stat.validator()));
    append_response(&Resource { path, is_directory, size, mtime, etag: etag.as_deref() }, text);
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
