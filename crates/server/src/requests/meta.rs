//! Requests on names: stat, statx, dirlist, locate, prepare.

use crate::{
    base::{event::Frame, status::Failure},
    requests::{context::ConnectionContext, names::Permitted},
};
use forebay_auth::Right;
use forebay_engine::{Engine, ListDetail, OpenRequest, Space, WritePolicy};
use forebay_front::Backend;
use forebay_proto::{
    LocateOptions, ReplyTo, StreamId,
    request::{Dirlist, Locate, Prepare, Stat, Statx, Target},
    response::{DirlistEncoder, DirlistForm, Location, LocationKind},
};
use forebay_types::{Endpoint, FileStat};
use std::sync::Arc;

const MIB: u64 = 1 << 20;

/// Entries that are authorized before other tasks get their turn.
const ENTRIES_PER_TURN: usize = 64;

/// Option of a prepare request for files on disk.
const PREPARE_STAGE: u8 = 8;

impl ConnectionContext {
    /// The stat of an open file, of a path, or of the space that a path lies in.
    pub(crate) fn stat(&mut self, stream_id: StreamId, stat: &Stat<'_>) {
        let path = match stat.target {
            Target::Handle(name) => {
                let known = self.handle(name).map(forebay_engine::Handle::stat);
                return self.conclude(stream_id, known, |reply, stat, out| reply.stat(&stat, out));
            }
            Target::Path(path) => path,
        };
        let Some((engine, Permitted { request, caller })) = self.at_cache(stream_id, path, Right::Stat) else { return };
        let vfs = stat.vfs;
        self.start_answer(stream_id, |mut answer| async move {
            if vfs {
                let space = answer.wait_for(space_of(&engine, &request)).await;
                let send = |reply: ReplyTo, Space { total_bytes, free_bytes, .. }, out: &mut Vec<u8>| {
                    let used_bytes = total_bytes.saturating_sub(free_bytes);
                    let use_percent = used_bytes.saturating_mul(100).checked_div(total_bytes).unwrap_or(0);
                    reply.vfs_stat(free_bytes / MIB, use_percent, out);
                };
                answer.conclude(space, send).await;
            } else {
                let stat = answer.wait_for(engine.stat(&request, &caller)).await;
                answer.conclude(stat, |reply, stat, out| reply.stat(&stat, out)).await;
            }
        });
    }

    /// The kinds of several paths. The request fails if one of them does.
    pub(crate) fn statx(&mut self, stream_id: StreamId, statx: &Statx<'_>) {
        let Some((engine, paths)) = self.all_at_cache(stream_id, statx.iter(), Right::Stat) else { return };
        self.start_answer(stream_id, |mut answer| async move {
            let stats = answer.wait_for(stat_all(&engine, &paths)).await;
            answer.conclude(stats, |reply, stats, out| reply.statx(&stats, out)).await;
        });
    }

    /// Lists a directory, in frames of whole entries.
    pub(crate) fn dirlist(&mut self, stream_id: StreamId, dirlist: &Dirlist<'_>) {
        let Some((engine, Permitted { request, caller })) = self.at_cache(stream_id, dirlist.path, Right::List) else {
            return;
        };
        let form = DirlistForm::asked_by(dirlist.options);
        let listings = Arc::clone(&self.listings);
        let front = Arc::clone(&self.state.front);
        self.start_answer(stream_id, |mut answer| async move {
            // The semaphore is never closed, so waiting cannot fail.
            let _turn = answer.wait_for(listings.acquire_owned()).await;
            let detail = match form {
                DirlistForm::Names => ListDetail::Names,
                DirlistForm::Stats => ListDetail::Stats,
                DirlistForm::Checksums => ListDetail::Checksums,
            };
            let listing = match answer.wait_for(engine.list(&request, &caller, detail)).await {
                Ok(listing) => listing,
                Err(error) => return answer.fail(error.into()).await,
            };
            let mut encoder = DirlistEncoder::new(answer.reply, form);
            let mut frame = Vec::new();
            for (number, mut entry) in listing.entries.into_iter().enumerate() {
                if front.gate.has_rules() {
                    // Rules are evaluated without waiting, and a directory may have a million entries.
                    if number % ENTRIES_PER_TURN == 0 {
                        tokio::task::yield_now().await;
                    }
                    // Entries that the client may not see are left out: an error would reveal that they exist.
                    if !front.allows_entry(&caller, Right::Stat, &request.lfn, &entry.name) {
                        continue;
                    }
                    // The checksum of a small file reveals its contents: it needs the right to read them.
                    if !front.allows_entry(&caller, Right::Read, &request.lfn, &entry.name) {
                        entry.checksum = None;
                    }
                }
                encoder.push(&entry, &mut frame);
                if !frame.is_empty() && answer.send(Frame::from(std::mem::take(&mut frame))).await.is_err() {
                    return;
                }
            }
            answer.finish(|_, out| encoder.finish(out)).await;
        });
    }

    /// Names this server as the place of a file that exists. `*` and `*/path` ask for servers that could have it, so they are
    /// answered without a look.
    pub(crate) fn locate(&mut self, stream_id: StreamId, locate: &Locate<'_>) {
        let endpoint = self.own_endpoint(locate.options.contains(LocateOptions::PREFER_NAMES));
        let location = move |is_writable| [Location { kind: LocationKind::Server, is_writable, endpoint }];
        // Clients send the terminating NUL of C strings with some paths.
        let any = locate.path.strip_prefix(b"*").map(|path| path.strip_suffix(b"\0").unwrap_or(path));
        let path = match (any, &self.state.front.backend) {
            (Some(b""), Backend::Cache(engine)) => {
                let is_writable = engine.redirects_writers();
                return self.reply(stream_id, |reply, out| reply.locate(&location(is_writable), out));
            }
            (Some(b""), Backend::Manager(_)) => b"/",
            (any, _) => any.unwrap_or(locate.path),
        };
        let Some((engine, Permitted { request, caller })) = self.at_cache(stream_id, path, Right::Stat) else { return };
        if any.is_some() {
            let exported = engine.write_policy(&request).map_err(Failure::from);
            let send = |reply: ReplyTo, policy, out: &mut Vec<u8>| {
                reply.locate(&location(matches!(policy, WritePolicy::Redirect(_))), out);
            };
            return self.conclude(stream_id, exported, send);
        }
        self.start_answer(stream_id, |mut answer| async move {
            let stat = answer.wait_for(engine.stat(&request, &caller)).await;
            let send = |reply: ReplyTo, stat: FileStat, out: &mut Vec<u8>| {
                reply.locate(&location(stat.access.is_some_and(|access| access.is_writable)), out);
            };
            answer.conclude(stat, send).await;
        });
    }

    /// Starts to fetch the files that a client wants on disk; other kinds of prepare need no action. If one path is refused,
    /// nothing is fetched.
    pub(crate) fn prepare(&mut self, stream_id: StreamId, prepare: &Prepare<'_>) {
        if prepare.options & PREPARE_STAGE == 0 {
            return self.reply(stream_id, ReplyTo::ok);
        }
        let Some((engine, wanted)) = self.all_at_cache(stream_id, prepare.iter(), Right::Read) else { return };
        // All names are checked before the first fetch starts.
        let checked = wanted.iter().try_for_each(|wanted| engine.write_policy(&wanted.request).map(drop));
        let stage = |Permitted { request, caller }| engine.stage(request, caller);
        let staged = checked.and_then(|()| wanted.into_iter().try_for_each(stage));
        let id = self.state.next_prepare_id();
        self.conclude(stream_id, staged.map_err(Failure::from), |reply, (), out| reply.ok_with(id.as_bytes(), out));
    }

    /// The address that the client is connected to, or the configured name for clients that prefer one.
    pub(crate) fn own_endpoint(&self, prefers_names: bool) -> Endpoint {
        let name = self.state.options.host_name.as_deref().filter(|_| prefers_names);
        let host = name.map_or_else(|| self.local.ip().to_string(), str::to_owned);
        Endpoint::new(&host, self.local.port())
    }
}

async fn stat_all(engine: &Engine, paths: &[Permitted]) -> Result<Vec<FileStat>, forebay_engine::Error> {
    let mut stats = Vec::with_capacity(paths.len());
    for Permitted { request, caller } in paths {
        stats.push(engine.stat(request, caller).await?);
    }
    Ok(stats)
}

/// The space of the server. Any exported name will do, and `/`, which monitoring tools use.
pub(crate) async fn space_of(engine: &Engine, request: &OpenRequest) -> Result<Space, forebay_engine::Error> {
    if request.lfn.as_str() != "/" {
        engine.write_policy(request)?;
    }
    engine.space().await
}
