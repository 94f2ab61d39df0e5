//! Handshakes over a socket. Their cryptography and file reads run on blocking threads, so that other connections are not delayed.

use super::{
    TlsAcceptor, TlsConnector, TlsError, TlsFacts,
    session::{Step, TlsSession, Wire},
    verdict::Objection,
};
use crate::send::{SendError, SendHint, send_all};
use std::io;
use tokio::{net::TcpStream, task::spawn_blocking};

/// Performs the handshake with a client; `received` are its first bytes.
pub(crate) async fn accept(
    socket: &TcpStream,
    acceptor: &TlsAcceptor,
    received: &[u8],
) -> Result<(TlsSession, TlsFacts), TlsError> {
    let mut wire = Wire::of(received);
    if received.is_empty() {
        receive(socket, &mut wire).await?;
    }
    let (begun, chains) = {
        let acceptor = acceptor.clone();
        blocking(move || acceptor.session(wire).map(|(session, chains)| (step(session), chains))).await??
    };
    let (session, done) = complete(socket, begun).await?;
    done?;
    let facts = chains.complete(TlsFacts::of(&session, acceptor.trust()));
    Ok((session, facts))
}

/// Performs the handshake with the server `host`.
pub(crate) async fn connect(
    socket: &TcpStream,
    connector: &TlsConnector,
    host: &str,
) -> Result<(TlsSession, TlsFacts), TlsError> {
    let begun = {
        let (connector, host) = (connector.clone(), host.to_owned());
        blocking(move || connector.session(&host).map(step)).await??
    };
    let (session, done) = complete(socket, begun).await?;
    if let Some(objection) = Objection::of(session.ssl()) {
        return Err(objection.to_error(connector.trust(), host));
    }
    done?;
    let facts = TlsFacts::of(&session, Some(connector.trust()));
    Ok((session, facts))
}

/// Fewer bytes than any certificate with its signature has.
const CERTIFICATE_LEN_MIN: usize = 384;

/// A session, and the result of its last handshake step.
type Stepped = (TlsSession, Result<Step, TlsError>);

fn step(mut session: TlsSession) -> Stepped {
    let stepped = session.step();
    (session, stepped)
}

/// Continues until the handshake has succeeded or failed.
///
/// The peer's answer to the first flight is handled here if it is too short for a certificate: that is cheaper than a thread switch.
async fn complete(
    socket: &TcpStream,
    (mut session, mut stepped): Stepped,
) -> Result<(TlsSession, Result<(), TlsError>), TlsError> {
    // Bytes of the peer since the last flight sent.
    let mut answer_len: Option<usize> = None;
    loop {
        let unsent_len = session.wire_mut().unsent().len();
        if unsent_len > 0 {
            answer_len = Some(0);
            let sent = send_all(socket, session.wire_mut().unsent(), SendHint::Last).await;
            session.wire_mut().sent(unsent_len);
            // The error of the handshake takes precedence.
            if stepped.is_ok() {
                sent.map_err(connection)?;
            }
        }
        match stepped {
            Ok(Step::WaitsForPeer) => {
                let len = receive(socket, session.wire_mut()).await?;
                answer_len = answer_len.map(|before| before + len);
            }
            Ok(Step::Done) => return Ok((session, Ok(()))),
            Err(error) => return Ok((session, Err(error))),
        }
        let is_quick = answer_len.is_some_and(|len| len < CERTIFICATE_LEN_MIN);
        (session, stepped) = if is_quick { step(session) } else { blocking(move || step(session)).await? };
    }
}

/// Waits for bytes of the peer; returns their number, 0 if it has closed the connection.
async fn receive(socket: &TcpStream, wire: &mut Wire) -> Result<usize, TlsError> {
    loop {
        match socket.try_read(wire.room()) {
            Ok(0) => {
                wire.end();
                return Ok(0);
            }
            Ok(len) => {
                wire.received(len);
                return Ok(len);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wire.release();
                socket.readable().await?;
            }
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
