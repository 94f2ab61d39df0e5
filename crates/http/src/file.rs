//! GET and HEAD of files.

use crate::{
    body::Content,
    error_answers::ErrorAnswer,
    facts::{CONTENT_TYPE, Facts},
    identity::{Admitted, revalidates, wants_only_cached},
    open_files::{File, Key, VALID_TIME_MAX},
    options::RANGES_LEN_MAX,
    request::{Broken, Context, takes_chunks, unless_left},
    wire::Wire,
};
use forebay_auth::{Identity, Right, UnixTime};
use forebay_engine::{Caller, OpenRequest, Opening, Redirects};
use forebay_front::{Failure, FailureKind};
use forebay_http_proto::{
    Answer, Conditions, Framing, Head, PartHeads, Ranges, Status, Target, Verdict, Version, digest_field, has_token,
    http_date, ranges_of, wanted_digests,
};
use forebay_types::{ByteRange, FileKind, Side};
use std::{sync::Arc, time::Duration};

/// The part of a file that is to be sent.
#[derive(Debug)]
enum Plan {
    Whole,
    Part(ByteRange),
    Parts(Vec<ByteRange>),
}

impl<W: Wire> Context<W> {
    /// Answers a GET of a file or directory.
    pub(crate) async fn get(
        &mut self,
        head: &Head<'_>,
        target: &Target<'_>,
    ) -> Result<Result<(), ErrorAnswer>, Broken> {
        // A page needs the right to list, and not that to read.
        if target.path.ends_with('/') && !self.is_s3() {
            return Box::pin(self.list_as_page(head, target)).await;
        }
        let kept = if revalidates(head) || wants_only_cached(head) {
            None
        } else {
            let (target, proof) = self.kept_name(head, target);
            self.peer.files.find(target, proof, self.received)
        };
        let file = match kept {
            Some(file) => file,
            None => match Box::pin(self.open(head, target)).await {
                Ok(Some(file)) => file,
                Ok(None) if self.is_s3() => return Ok(Err(directory_is_no_object())),
                Ok(None) => return Box::pin(self.list_as_page(head, target)).await,
                Err(error) => return Ok(Err(error)),
            },
        };
        match plan(head, &file.facts) {
            Ok(plan) => self.send(head, &file, plan).await,
            Err(error) => Ok(Err(error)),
        }
    }

    /// Answers a HEAD of a file or directory.
    pub(crate) async fn head(&mut self, head: &Head<'_>, target: &Target<'_>) -> Result<(), ErrorAnswer> {
        let engine = self.engine()?;
        let Admitted { request, caller } = self.admit(head, target, Right::Stat).await?;
        let stat = engine.stat(&request, &caller).await?;
        if request.only_if_cached && !stat.cached {
            return Err(not_cached());
        }
        if stat.kind == FileKind::Directory {
            if self.is_s3() {
                return Err(directory_is_no_object());
            }
            // rclone takes a path for a file unless it is redirected to one with a slash.
            if !request.is_of_directory {
                self.add_slash(head, target);
                return Ok(());
            }
            let answer = Answer::new(Status::OK, Framing::None).with("Content-Type", "text/html; charset=utf-8");
            self.write_head(head, answer);
            return Ok(());
        }
        let facts = Facts::of(&stat);
        // Ranges are of GET alone, but its conditions count.
        judge(head, &facts)?;
        let mut answer = Answer::new(Status::OK, Framing::Length(stat.size));
        answer.add_all(&facts.fields(CONTENT_TYPE));
        // Only a file that is here is opened for its age.
        if stat.cached
            && let Ok(Some(file)) = self.open(head, target).await
            && let Some(age) = file.handle.age()
        {
            answer.add_number("Age", age);
        }
        let wanted = wanted_digests(head);
        if !wanted.is_empty() {
            // The checksum of a small file reveals its contents.
            let Admitted { request, caller } = self.admit(head, target, Right::Read).await?;
            for digest in &wanted {
                let known = engine.checksum(&request, &caller, Some(digest.algorithm)).await;
                if let Some((name, value)) = known.ok().and_then(|known| digest_field(digest, &known.value)) {
                    answer.add(name, value);
                    break;
                }
            }
        }
        self.write_head(head, answer);
        Ok(())
    }

    /// Opens the file of a request, and keeps it open; `None` if it is a directory. A file that the connection has open is looked at as by
    /// an open, and its use continues.
    async fn open(&mut self, head: &Head<'_>, target: &Target<'_>) -> Result<Option<Arc<File>>, ErrorAnswer> {
        self.engine()?;
        let Admitted { mut request, caller } = self.admit(head, target, Right::Read).await?;
        request.first_read = first_read(head);
        if request.is_of_directory {
            return Ok(None);
        }
        let (name, proof) = self.kept_name(head, target);
        if let Some(known) = self.peer.files.known(name, proof) {
            let found = self.look_again(&known, (head, target), &request, &caller).await;
            if !matches!(found, Ok(true)) {
                let (name, proof) = self.kept_name(head, target);
                self.peer.files.close(name, proof);
            }
            if found? {
                return Ok(Some(known));
            }
        }
        // Before the open, so that a refused one costs the origin nothing.
        let Some(place) = self.peer.handle_share.occupy() else {
            let text = "this client has too many files open: close some connections, or try again later";
            let failure = Failure::new(FailureKind::Overloaded, Side::Client, text);
            self.peer.state.front.report_refusal(&caller.client, &request.lfn, &failure);
            return Err(failure.into());
        };
        let peer = Arc::clone(&self.peer);
        let opening = peer.state.front.open(&request, &caller, Redirects::Never);
        let Ok(opened) = unless_left(&mut self.wire, opening).await else {
            self.is_ending = true;
            return Err(ErrorAnswer::of_client(Status::TIMEOUT, "the client has left"));
        };
        let handle = match opened {
            Ok(Opening::File(handle)) => handle,
            Ok(Opening::Redirect(_) | Opening::Direct(_)) => {
                return Err(Failure::internal("a redirect that no client of HTTP can follow").into());
            }
            Err(failure) if is_of_directory(failure.kind) => return Ok(None),
            Err(failure) => return Err(failure.into()),
        };
        let file = Arc::new(File::of(handle));
        let (name, proof) = self.kept_name(head, target);
        let key = Key { target: name.to_owned(), authorization: proof.map(str::to_owned) };
        // The wish for a file that is cached is one of this request only.
        if !request.only_if_cached {
            self.peer.files.keep(key, Arc::clone(&file), place, self.received, rest_of(&caller.identity));
        }
        Ok(Some(file))
    }

    /// Whether an open would still lead to a file that the connection has open; if so, its open counts again.
    async fn look_again(
        &mut self,
        known: &File,
        (head, target): (&Head<'_>, &Target<'_>),
        request: &OpenRequest,
        caller: &Arc<Caller>,
    ) -> Result<bool, ErrorAnswer> {
        let engine = self.engine()?;
        let looking = self.peer.state.front.still_leads_to(&engine, &known.handle, request, caller);
        let Ok(found) = unless_left(&mut self.wire, looking).await else {
            self.is_ending = true;
            return Err(ErrorAnswer::of_client(Status::TIMEOUT, "the client has left"));
        };
        let is_same = found?;
        // A request for what is cached has not asked the origin.
        if is_same && !request.only_if_cached {
            let (name, proof) = self.kept_name(head, target);
            self.peer.files.renew(name, proof, self.received, rest_of(&caller.identity));
        }
        Ok(is_same)
    }

    /// The text under which a file is kept open: the target with the proof of identity. In requests of S3 both change with the time.
    fn kept_name<'b>(&'b self, head: &'b Head<'_>, target: &'b Target<'_>) -> (&'b str, Option<&'b str>) {
        if self.is_s3() {
            return (&target.path, self.signer.as_ref().map(|signer| signer.key_id.as_str()));
        }
        (head.target, head.field("authorization"))
    }

    /// Sends the planned part of a file.
    async fn send(&mut self, head: &Head<'_>, file: &File, plan: Plan) -> Result<Result<(), ErrorAnswer>, Broken> {
        let size = file.facts.size;
        let whole = ByteRange::at(0, size);
        let (status, ranges) = match &plan {
            Plan::Whole => (Status::OK, std::slice::from_ref(&whole)),
            Plan::Part(range) => (Status::PARTIAL, std::slice::from_ref(range)),
            Plan::Parts(ranges) => (Status::PARTIAL, ranges.as_slice()),
        };
        let parts = (ranges.len() > 1).then(|| PartHeads::new(size));
        let len = match &parts {
            Some(parts) => parts.body_len(ranges).unwrap_or(u64::MAX),
            None => ranges.iter().map(|range| range.len()).sum(),
        };
        let has_status = wants_status(head);
        let framing = if has_status { Framing::Chunked { has_status } } else { Framing::Length(len) };
        let mut answer = Answer::new(status, framing);
        answer.add_all(if parts.is_some() { &file.fields_of_parts } else { &file.fields });
        answer.add_all(self.peer.state.cache_status.of(file, ranges));
        if let Some(age) = file.handle.age() {
            answer.add_number("Age", age);
        }
        if let Plan::Part(range) = &plan {
            answer.add_content_range(*range, size);
        }
        self.send_content(head, answer, Content { handle: &file.handle, ranges, parts, len, has_status }).await
    }
}

/// The bytes that a GET is going to read first; none if that depends on the size of the file.
fn first_read(head: &Head<'_>) -> ByteRange {
    let first = match ranges_of(head.field("range"), u64::MAX) {
        Ranges::Whole => ByteRange::at(0, u64::MAX),
        Ranges::One(range) => range,
        Ranges::Many(ranges) => ranges.first().copied().unwrap_or_default(),
        Ranges::TooMany | Ranges::Unsatisfiable => ByteRange::default(),
    };
    // Ranges that count from the end are at the end of the largest file here.
    let is_known = first.start() < u64::MAX / 2;
    if is_known { first } else { ByteRange::default() }
}

/// Whether the status of the delivery is to follow the body. davix sends `TE: trailers` alone, and does not expect any; clients of HTTP/2
/// need not announce that they take them.
fn wants_status(head: &Head<'_>) -> bool {
    let takes_trailers = head.version == Version::Http2 || has_token(head.values("te"), "trailers");
    let is_wished = head.field("x-transfer-status").is_some_and(|value| value.trim().eq_ignore_ascii_case("true"));
    is_wished && takes_trailers && takes_chunks(head)
}

/// How long an open counts with the credentials of a client.
fn rest_of(identity: &Identity) -> Duration {
    let now = UnixTime(forebay_net::clock::now_unix());
    identity
        .expires_at
        .map_or(VALID_TIME_MAX, |end| Duration::from_secs(u64::try_from(end.0.saturating_sub(now.0)).unwrap_or(0)))
}

/// The part of a file that a GET is answered with.
fn plan(head: &Head<'_>, facts: &Facts) -> Result<Plan, ErrorAnswer> {
    let uses_ranges = judge(head, facts)?;
    let ranges = if uses_ranges { ranges_of(head.field("range"), facts.size) } else { Ranges::Whole };
    // Clients of root halve the number of their ranges on this status only.
    let too_many = || ErrorAnswer::of_client(Status::BAD_REQUEST, "the request has too many ranges, or too long ones");
    match ranges {
        Ranges::Whole => Ok(Plan::Whole),
        Ranges::One(range) => Ok(Plan::Part(range)),
        Ranges::Many(ranges) => {
            let len = ranges.iter().fold(0_u64, |len, range| len.saturating_add(range.len()));
            if len > RANGES_LEN_MAX { Err(too_many()) } else { Ok(Plan::Parts(ranges)) }
        }
        Ranges::TooMany => Err(too_many()),
        Ranges::Unsatisfiable => {
            let answer = ErrorAnswer::of_client(Status::RANGE_NOT_SATISFIABLE, "the file has no byte of the range");
            Err(answer.with("Content-Range", format!("bytes */{}", facts.size)))
        }
    }
}

/// Whether the ranges of a request count, after its conditions.
fn judge(head: &Head<'_>, facts: &Facts) -> Result<bool, ErrorAnswer> {
    let (etag, mtime) = (facts.etag.as_deref(), facts.mtime);
    let conditions = Conditions { etag, mtime, now: forebay_net::clock::now_unix() };
    match conditions.judge(head) {
        Verdict::Proceed { uses_ranges } => Ok(uses_ranges),
        Verdict::NotModified => {
            let answer = ErrorAnswer::of_client(Status::NOT_MODIFIED, "").with_some("ETag", etag);
            Err(answer.with_some("Last-Modified", mtime.map(http_date)))
        }
        Verdict::Failed => {
            let text = "the file has changed, or is not the one that the condition names";
            Err(ErrorAnswer::of_client(Status::PRECONDITION_FAILED, text).with_some("ETag", etag))
        }
    }
}

const fn is_of_directory(kind: FailureKind) -> bool {
    use forebay_front::RefusalKind::{IsDirectory, NotFile};
    matches!(kind, FailureKind::IsDirectory | FailureKind::OriginRefused(IsDirectory | NotFile))
}

fn directory_is_no_object() -> ErrorAnswer {
    Failure::new(FailureKind::IsDirectory, Side::Client, "it is a directory").into()
}

fn not_cached() -> ErrorAnswer {
    Failure::new(FailureKind::NotCached, Side::Client, "the file is not in the cache").into()
}
