//! Opens and closes; writes and changes of the name space are refused, or redirected to the origin.

use crate::{
    base::{
        event::{Event, Opened},
        status::Failure,
    },
    requests::{
        context::ConnectionContext,
        names::{Permitted, redirect_to, too_many_files},
    },
};
use forebay_auth::Right;
use forebay_engine::{Opening, Redirects, WritePolicy};
use forebay_proto::{
    Abilities, ErrorCode, FileHandle, StreamId,
    request::{Change, Open, Target},
};
use std::sync::Arc;

impl ConnectionContext {
    /// Starts to open a file. If the rules say so, the client is redirected to the origin. Opens for writing are refused or
    /// redirected.
    pub(crate) fn open(&mut self, stream_id: StreamId, open: &Open<'_>) {
        if open.options.is_write() {
            return self.answer_write(stream_id, open.path);
        }
        let (Permitted { request, caller }, places) = match self.permitted_open(open.path) {
            Ok(permitted) => permitted,
            Err(failure) => return self.fail(stream_id, &failure),
        };
        let redirects = self.main().map_or(Redirects::Never, |main| main.redirects);
        let redirects = self.state.front.direct.proven(redirects, request.probe.as_deref());
        let (options, state) = (open.options, Arc::clone(&self.state));
        self.start_answer(stream_id, |mut answer| async move {
            match answer.wait_for(state.front.open(&request, &caller, redirects)).await {
                Ok(Opening::Redirect(redirect)) => {
                    answer.finish(|reply, out| redirect_to(&redirect, reply, out)).await;
                }
                Ok(Opening::Direct(path)) => match state.front.direct.url_of(&path) {
                    Some(url) => answer.finish(|reply, out| reply.redirect_to_url(&url, out)).await,
                    None => answer.fail(Failure::internal("no URL can name the file in the cache")).await,
                },
                // If the connection has ended, the dropped handle closes the file.
                Ok(Opening::File(handle)) => {
                    let opened = Opened { reply: answer.reply, options, handle, places };
                    let _ = answer.hand_over(Event::Opened(opened)).await;
                }
                Err(error) => answer.fail(error.into()).await,
            }
        });
    }

    /// The redirects that a client can follow, by the abilities it has named at login.
    pub(crate) fn redirects_for(&self, ability: Abilities) -> Redirects {
        if !ability.contains(Abilities::FULL_URL) {
            return Redirects::ToServers;
        }
        let sees_files = ability.contains(Abilities::LOCAL_FILE) && self.state.front.direct.is_for(self.peer.ip());
        match (sees_files, ability.contains(Abilities::READ_REDIRECT)) {
            (true, true) => Redirects::ToFilesAmidReads,
            (true, false) => Redirects::ToFiles,
            (false, _) => Redirects::ToUrls,
        }
    }

    /// Adds an open file to the table, and answers the client.
    pub(crate) fn opened(&mut self, opened: Opened) {
        let Opened { reply, options, handle, places } = opened;
        let stat = handle.stat();
        match self.handles.insert(handle, places) {
            Some(name) => self.output.encode(|out| reply.open(name, options, &stat, out)),
            None => {
                let failure = Failure::from(too_many_files());
                self.metrics.add_client_error(failure.side);
                self.output.encode(|out| reply.error(failure.code, &failure.text, out));
            }
        }
    }

    pub(crate) fn close(&mut self, stream_id: StreamId, name: FileHandle) {
        let closed = self.handles.remove(name).map(drop).ok_or_else(Failure::not_open);
        self.conclude(stream_id, closed, |reply, (), out| reply.ok(out));
    }

    /// Answers a write request. Its data, if any, has been drained.
    pub(crate) fn change(&mut self, stream_id: StreamId, change: &Change<'_>) {
        match change.target {
            // Names that the client may not see are refused as such, before anything is said about writes.
            Target::Path(path) => self.answer_write(stream_id, path),
            // Only files open for reading have handles.
            Target::Handle(name) => {
                let failure = self.handle(name).map_or_else(|failure| failure, |_| read_only());
                self.fail(stream_id, &failure);
            }
        }
    }

    /// Refuses a write, or redirects the client to the server that accepts it.
    pub(crate) fn answer_write(&mut self, stream_id: StreamId, path: &[u8]) {
        // The right to see the name is enough to learn where it can be written.
        let Some(permitted) = self.permitted_or_refused(stream_id, path, Right::Stat) else { return };
        match self.state.front.backend.write_policy(&permitted.request) {
            Ok(WritePolicy::Redirect(endpoint)) => {
                self.reply(stream_id, |reply, out| reply.redirect_to_host(&endpoint, "", out));
            }
            Ok(WritePolicy::Refuse) => self.fail(stream_id, &read_only()),
            Err(error) => self.fail(stream_id, &error.into()),
        }
    }
}

fn read_only() -> Failure {
    Failure::client(ErrorCode::FS_READ_ONLY, "this server is read-only: write to the origin")
}
