//! Calls the handler of each request.

use crate::{
    base::{
        output::OutputError,
        sessions::{BindError, Ending, Standing},
        status::Failure,
    },
    requests::context::{ConnectionContext, Role},
};
use forebay_front::proven_name;
use forebay_proto::{ErrorCode, ReplyTo, Request, ServerSession, SessionId, StreamId, request::Bind};
use forebay_telemetry::RequestKind;
use tokio::task::AbortHandle;

impl ConnectionContext {
    /// Answers a request, or starts to. Fails only when the connection cannot be written to.
    pub(crate) async fn dispatch(
        &mut self,
        session: &mut ServerSession,
        connection: &AbortHandle,
        stream_id: StreamId,
        request: &Request<'_>,
    ) -> Result<(), OutputError> {
        self.metrics.add_client_request(kind_of(request));
        match request {
            Request::Read(read) => return self.read(stream_id, read).await,
            Request::ReadVector(read) => return self.read_vector(stream_id, read).await,
            Request::PageRead(read) => return self.page_read(stream_id, read).await,
            Request::Open(open) => self.open(stream_id, open),
            Request::Close(close) => self.close(stream_id, close.handle),
            Request::Sync(sync) => {
                // Files are open for reading only, so there is nothing to sync.
                let known = self.handle(sync.handle).map(drop);
                self.conclude(stream_id, known, |reply, (), out| reply.ok(out));
            }
            Request::Stat(stat) => self.stat(stream_id, stat),
            Request::Statx(statx) => self.statx(stream_id, statx),
            Request::Dirlist(dirlist) => self.dirlist(stream_id, dirlist),
            Request::Locate(locate) => self.locate(stream_id, locate),
            Request::Prepare(prepare) => self.prepare(stream_id, prepare),
            Request::Query(query) => self.query(stream_id, query),
            Request::Set(set) => self.set(stream_id, set),
            Request::Ping => self.reply(stream_id, ReplyTo::ok),
            Request::Fattr(_) => {
                let text = "file attributes are not supported";
                self.fail(stream_id, &Failure::client(ErrorCode::UNSUPPORTED, text));
            }
            Request::Change(change) => self.change(stream_id, change),
            Request::Login(login) => self.login(session, connection, stream_id, login),
            Request::Bind(bind) => self.bind(session, stream_id, bind),
            Request::EndSession(end) => self.end_session(stream_id, end.session_id),
            Request::Auth(auth) => self.authenticate(stream_id, auth),
            // A signature that is not needed has no answer, and no effect.
            Request::Sigver(_) => {}
            Request::Protocol(_) => {
                self.fail(stream_id, &Failure::internal("a request of the session set-up came to a handler"));
            }
        }
        Ok(())
    }

    fn bind(&mut self, session: &mut ServerSession, stream_id: StreamId, bind: &Bind) {
        let Role::New(events) = &self.role else {
            return self.fail(stream_id, &Failure::client(ErrorCode::INVALID_REQUEST, "the connection is in use"));
        };
        let certified = self.certified.as_ref().and_then(|certified| certified.as_ref().as_ref().ok());
        let standing = Standing {
            identity: certified.and_then(|proof| proven_name(&proof.identity)),
            is_certified: certified.is_some(),
            is_tls: session.is_tls(),
        };
        match self.state.sessions.bind(bind.session_id, self.peer.ip(), &standing, events.clone()) {
            Ok(bound) => {
                self.output.encode(|out| session.accept_bind(stream_id, bound.path_id, out));
                self.role = Role::Bound { _place: bound };
                // The session has a login, so the stream no longer counts as an unproven connection.
                self.login_place = None;
            }
            Err(error) => {
                let code = match error {
                    BindError::UnknownSession => ErrorCode::NOT_FOUND,
                    BindError::OtherHost | BindError::OtherEncryption | BindError::OtherIdentity => {
                        ErrorCode::NOT_AUTHORIZED
                    }
                    BindError::TooMany => ErrorCode::NO_MEMORY,
                };
                self.fail(stream_id, &Failure::client(code, error.to_string()));
            }
        }
    }

    /// Ends a session of the same owner. Unknown sessions count as ended: clients abandon their reconnection if this fails.
    fn end_session(&mut self, stream_id: StreamId, id: SessionId) {
        if let Role::Main(main) = &self.role {
            if main.session.id == id {
                self.is_ending = true;
            } else if main.session.end_other(id) == Ending::Foreign {
                let failure = Failure::client(ErrorCode::NOT_AUTHORIZED, "the session belongs to another client");
                return self.fail(stream_id, &failure);
            }
        }
        self.reply(stream_id, ReplyTo::ok);
    }
}

const fn kind_of(request: &Request<'_>) -> RequestKind {
    match request {
        Request::Protocol(_)
        | Request::Login(_)
        | Request::Auth(_)
        | Request::Bind(_)
        | Request::EndSession(_)
        | Request::Sigver(_) => RequestKind::Session,
        Request::Open(_) => RequestKind::Open,
        Request::Close(_) => RequestKind::Close,
        Request::Read(_) => RequestKind::Read,
        Request::ReadVector(_) => RequestKind::Readv,
        Request::PageRead(_) => RequestKind::Pgread,
        Request::Stat(_) | Request::Statx(_) => RequestKind::Stat,
        Request::Dirlist(_) => RequestKind::Dirlist,
        Request::Locate(_) => RequestKind::Locate,
        Request::Query(_) => RequestKind::Query,
        Request::Change(_) => RequestKind::Write,
        Request::Sync(_) | Request::Prepare(_) | Request::Fattr(_) | Request::Ping | Request::Set(_) => {
            RequestKind::Other
        }
    }
}
