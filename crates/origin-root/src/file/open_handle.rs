//! A file open at one server.

use crate::{
    route::{
        Arrival, Question,
        call::{Answer, CallLimits, call, lost, protocol},
    },
    servers::{Servers, attempts::Attempts},
    session::connection::Connection,
};
use forebay_origin::{FileIdentity, OriginError, OriginPath};
use forebay_proto::{
    FileHandle, Request,
    request::{Stat, Target},
    response::{OpenReply, parse_stat},
};
use forebay_types::Validator;
use std::sync::Arc;

/// A file open at one server. Dropping it closes the file there.
#[derive(Debug)]
pub(crate) struct OpenHandle {
    pub(crate) connection: Arc<Connection>,
    pub(crate) handle: FileHandle,
    pub(crate) identity: FileIdentity,
    /// Position in the list of the server that was asked, which may have redirected us.
    pub(crate) server_index: usize,
    pub(crate) is_behind_redirector: bool,
}

impl OpenHandle {
    /// Opens `path` at one of `servers`, or where they redirect to.
    ///
    /// # Errors
    /// As [`Servers::ask`]; `Protocol` when the answer makes no sense.
    pub(crate) async fn open(
        servers: &Servers,
        path: &OriginPath,
        attempts: Attempts<'_>,
        limits: CallLimits,
    ) -> Result<Self, OriginError> {
        let question = Question::Open { refresh: false };
        let (arrival, server_index) = servers.ask(path, question, attempts, limits).await?;
        let Arrival { body, connection, is_behind_redirector } = arrival;
        let reply = OpenReply::parse(&body).map_err(|error| protocol(&connection, error))?;
        // Made before the stat is known: if that fails, dropping it closes the file at the server.
        let mut opened = Self {
            identity: FileIdentity {
                size: 0,
                validator: Validator::default(),
                origin: connection.endpoint().clone().into(),
            },
            connection,
            handle: reply.handle,
            server_index,
            is_behind_redirector,
        };
        let stat = match reply.stat {
            Some(stat) => stat,
            // Some servers ignore the demand for a stat with the open.
            None => {
                let request = Request::Stat(Stat { target: Target::Handle(reply.handle), vfs: false });
                match call(&opened.connection, &request, "asking for a stat", limits).await? {
                    Answer::Body(body) => parse_stat(&body).map_err(|error| protocol(&opened.connection, error))?,
                    // A handle is valid at this server only, so a redirect leads nowhere.
                    Answer::Redirect(_) => {
                        let reason = "an open file was redirected".to_owned();
                        return Err(lost(&opened.connection, "asking for a stat", reason));
                    }
                }
            }
        };
        opened.identity.size = stat.size;
        opened.identity.validator = Validator::of_mtime(stat.mtime);
        Ok(opened)
    }
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        // Not awaited: a drop cannot wait, and no caller needs the answer.
        self.connection.close_file(self.handle);
    }
}
