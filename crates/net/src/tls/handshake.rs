//! Handshakes over a socket. Their cryptography and the reading of files are done away from the tasks that serve others.

use super::{
    TlsAcceptor, TlsConnector, TlsError, TlsFacts,
    session::{Step, TlsSession},
    verdict::Objection,
};
use crate::send::{SendError, send_all};
use std::io;
use tokio::{net::TcpStream, task::spawn_blocking};

/// Goes through the handshake with a client; `received` are bytes of it that came already.
pub(crate) async fn accept(
    socket: &TcpStream,
    acceptor: &TlsAcceptor,
    received: &[u8],
) -> Result<(TlsSession, TlsFacts), TlsError> {
    let session = {
        let (acceptor, received) = (acceptor.clone(), received.to_vec());
        blocking(move || acceptor.session(&received)).await??
    };
    let (session, done) = complete(socket, session).await?;
    done?;
    let facts = TlsFacts::of(&session, acceptor.trust());
    Ok((session, facts))
}

/// Goes through the handshake with the server that should be `host`.
pub(crate) async fn connect(
    socket: &TcpStream,
    connector: &TlsConnector,
    host: &str,
) -> Result<(TlsSession, TlsFacts), TlsError> {
    let session = {
        let (connector, host) = (connector.clone(), host.to_owned());
        blocking(move || connector.session(&host)).await??
    };
    let (session, done) = complete(socket, session).await?;
    if let Some(objection) = Objection::of(session.ssl()) {
        return Err(objection.to_error(connector.trust(), host));
    }
    done?;
    let facts = TlsFacts::of(&session, Some(connector.trust()));
    Ok((session, facts))
}

/// Goes on until the handshake is done or has failed.
async fn complete(socket: &TcpStream, mut session: TlsSession) -> Result<(TlsSession, Result<(), TlsError>), TlsError> {
    loop {
        let (mut stepped, step) = blocking(move || {
            let step = session.step();
            (session, step)
        })
        .await?;
        let unsent_len = stepped.wire_mut().unsent().len();
        if unsent_len > 0 {
            let sent = send_all(socket, stepped.wire_mut().unsent()).await;
            stepped.wire_mut().sent(unsent_len);
            // When the handshake has failed, why it has matters more.
            if step.is_ok() {
                sent.map_err(connection)?;
            }
        }
        match step {
            Ok(Step::WaitsForPeer) => receive(socket, &mut stepped).await?,
            Ok(Step::Done) => return Ok((stepped, Ok(()))),
            Err(error) => return Ok((stepped, Err(error))),
        }
        session = stepped;
    }
}

async fn receive(socket: &TcpStream, session: &mut TlsSession) -> Result<(), TlsError> {
    loop {
        match socket.try_read_buf(session.wire_mut().room()) {
            Ok(0) => {
                session.wire_mut().end();
                return Ok(());
            }
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => socket.readable().await?,
            Err(error) => return Err(error.into()),
        }
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, TlsError> {
    spawn_blocking(work).await.map_err(|error| TlsError::SetUp { reason: error.to_string() })
}

fn connection(error: SendError) -> TlsError {
    match error {
        SendError::Connection(error) => TlsError::Connection(error),
        error => TlsError::SetUp { reason: error.to_string() },
    }
}
