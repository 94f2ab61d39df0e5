//! The life of an open file: its open, its data connection, and its end.

use crate::{
    control_line::{ControlLine, Session},
    end::End,
    expected_connections::DataConnection,
    failures::Subject,
    mover::Mover,
    names::Permitted,
    state::stopped,
};
use forebay_auth::Right;
use forebay_dcap_proto::{ControlAnswer, Errno, Open, Refusal};
use forebay_engine::{Handle, Opening, Redirects};
use forebay_front::{Failure, FailureKind, HandlePlace};
use forebay_types::Side;
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// Why an open has no data connection.
enum NoConnection {
    Late,
    /// The server stops, or another client has used the challenge.
    Never,
}

/// Opens a file and serves its data connection, until the client closes it, a read fails, or `stop` is true. The session lasts until its last
/// answer is handed over.
pub(crate) async fn serve(
    line: Arc<ControlLine>,
    answer: ControlAnswer,
    open: Open,
    _session: Session,
    mut stop: watch::Receiver<bool>,
) {
    let name = open.name.clone();
    let (handle, _place) = match line.open(open).await {
        Ok(opened) => opened,
        Err(refusal) => return line.answer(answer.failed(&refusal)).await,
    };
    let connection = match line.connect(answer, &mut stop).await {
        Ok(connection) => connection,
        Err(refusal) => return line.answer(answer.failed(&refusal)).await,
    };
    let mut mover = Mover::new(Arc::clone(&line), handle, connection);
    let end = mover.run(stop).await;
    match &end {
        End::Closed => {
            drop(mover);
            line.answer(answer.ok()).await;
        }
        // No answer: after a broken data connection the client takes it for that to its ping, and gives up the control connection.
        End::Left | End::Server => tracing::debug!(peer = %line.peer, %end, "data connection closed"),
        _ => {
            if end.is_repeated() {
                // Before the connection is closed: the client opens the file again at once.
                line.note_failing(&name);
                line.state.front.backend.metrics().add_client_error(end.side());
            }
            drop(mover);
            if line.state.front.refusal_log.has_room() {
                tracing::info!(peer = %line.peer, %end, side = %end.side(), "data connection closed");
            }
        }
    }
}

impl ControlLine {
    async fn open(&self, open: Open) -> Result<(Handle, HandlePlace), Refusal> {
        if self.takes_failing(&open.name) {
            return Err(Refusal::new(Refusal::READ_FAILED, Errno::Io, "the last read of this file failed"));
        }
        if open.is_for_writing {
            return Err(read_only());
        }
        let Permitted { request, caller } = self.permitted(open.path, Right::Read)?;
        let front = &self.state.front;
        // Before the open, so that a refused one costs the origin nothing.
        let Some(place) = self.handle_share.occupy() else {
            let text = "this client has too many files open: close some, or try again later";
            let failure = Failure::new(FailureKind::Overloaded, Side::Client, text);
            front.report_refusal(&caller.client, &request.lfn, &failure);
            return Err(Subject::Open.refusal(&failure));
        };
        let opening = front.open(&request, &caller, Redirects::Never);
        let opened = match open.timeout_s {
            Some(limit_s) => timeout(Duration::from_secs(u64::from(limit_s)), opening).await.map_err(|_| {
                Refusal::new(Refusal::TIMED_OUT, Errno::Io, format!("the open took longer than {limit_s} s"))
            })?,
            None => opening.await,
        };
        match opened {
            Ok(Opening::File(handle)) => Ok((handle, place)),
            Ok(Opening::Redirect(_) | Opening::Direct(_)) => {
                Err(Subject::Open.refusal(&Failure::internal("a redirect that no client of dCap can follow")))
            }
            Err(failure) => {
                front.backend.metrics().add_client_error(failure.side);
                Err(Subject::Open.refusal(&failure))
            }
        }
    }

    /// Sends the client to its data connection, and waits for it.
    async fn connect(
        &self,
        answer: ControlAnswer,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<DataConnection, Refusal> {
        let expected = self.state.expected.expect(answer.session, self.peer.ip());
        let mut expected =
            expected.ok_or_else(|| Subject::Open.refusal(&Failure::internal("the system has no random numbers")))?;
        let (host, port) = self.data_address();
        self.answer(answer.connect(&host, port, &expected.challenge)).await;
        let limit = self.state.options.data_connection_time_max;
        let arrived = tokio::select! {
            arrived = timeout(limit, expected.arrival()) => match arrived {
                Ok(arrived) => arrived.ok_or(NoConnection::Never),
                Err(_) => Err(NoConnection::Late),
            },
            () = stopped(stop) => Err(NoConnection::Never),
        };
        arrived.map_err(|reason| {
            let text = match reason {
                // A client that cannot connect sends no message.
                NoConnection::Late => format!("no data connection to {host}:{port} came in {} s", limit.as_secs()),
                NoConnection::Never => "the data connection was refused, or the server stops".to_owned(),
            };
            Refusal::new(Refusal::NO_POOL, Errno::Io, text)
        })
    }
}

/// The refusal of all changes.
pub(crate) fn read_only() -> Refusal {
    Refusal::new(Refusal::READ_ONLY, Errno::ReadOnly, "this server is read-only")
}
