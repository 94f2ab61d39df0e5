//! Writes and changes of the name space are refused, or redirected to the origin.

use crate::{base::status::Failure, requests::context::ConnectionContext};
use forebay_auth::Right;
use forebay_engine::{OpenRequest, WritePolicy};
use forebay_proto::{
    ErrorCode, StreamId,
    request::{Change, Target},
};
use forebay_types::Side;

impl ConnectionContext {
    /// Answers a write request. Its data, if any, has been drained.
    pub(crate) fn change(&mut self, stream_id: StreamId, change: &Change<'_>) {
        match change.target {
            // Names that the client may not see are refused as such, before anything is said about writes.
            Target::Path(path) => match self.permitted(path, Right::Stat) {
                Ok(permitted) => self.answer_write(stream_id, &permitted.request),
                Err(failure) => self.fail(stream_id, &failure),
            },
            // Only files open for reading have handles.
            Target::Handle(name) => {
                let failure = self.handle(name).map_or_else(|failure| failure, |_| read_only());
                self.fail(stream_id, &failure);
            }
        }
    }

    /// Refuses a write, or redirects the client to the server that accepts it.
    pub(crate) fn answer_write(&mut self, stream_id: StreamId, request: &OpenRequest) {
        match self.state.front.engine.write_policy(request) {
            Ok(WritePolicy::Redirect(endpoint)) => {
                self.reply(stream_id, |reply, out| reply.redirect_to_host(&endpoint, "", out));
            }
            Ok(WritePolicy::Refuse) => self.fail(stream_id, &read_only()),
            Err(error) => self.fail(stream_id, &error.into()),
        }
    }
}

fn read_only() -> Failure {
    Failure {
        code: ErrorCode::FS_READ_ONLY,
        text: "this server is read-only: write to the origin".into(),
        side: Side::Client,
    }
}
