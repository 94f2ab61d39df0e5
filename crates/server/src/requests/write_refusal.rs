//! Writes and changes of the name space are refused, or redirected to the origin.

use crate::{base::status::Failure, requests::context::ConnectionContext};
use forebay_auth::Right;
use forebay_engine::WritePolicy;
use forebay_proto::{
    ErrorCode, StreamId,
    request::{Change, Target},
};

impl ConnectionContext {
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
