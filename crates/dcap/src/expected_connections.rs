//! Opens that wait for their data connections.

use crate::{
    socket::receive,
    state::{State, stopped},
};
use forebay_dcap_proto::{Greeting, GreetingError};
use forebay_front::{ConnectionPlaces, NewClient, Place};
use forebay_telemetry::ConnectionGuard;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, oneshot, watch},
    time::timeout,
};

/// Opens that wait for their data connections, by challenge.
#[derive(Default)]
pub(crate) struct ExpectedConnections {
    opens: Mutex<HashMap<String, Expected>>,
}

struct Expected {
    session: u32,
    address: IpAddr,
    give: oneshot::Sender<DataConnection>,
}

/// An open that waits for its data connection. The challenge is invalid when this is dropped.
pub(crate) struct Expectation<'a> {
    pub(crate) challenge: String,
    connection: oneshot::Receiver<DataConnection>,
    among: &'a ExpectedConnections,
}

/// The data connection of an open, after its greeting.
pub(crate) struct DataConnection {
    pub(crate) stream: TcpStream,
    /// Bytes after the greeting: clients may send requests with it.
    pub(crate) received: Vec<u8>,
    _in_total: OwnedSemaphorePermit,
    _of_client: Place<IpAddr>,
    _gauge: ConnectionGuard,
}

/// Why a connection is of no open.
#[derive(Debug, thiserror::Error)]
enum Unexpected {
    #[error("the client closed it")]
    Closed,
    #[error("its greeting did not come in time")]
    Slow,
    #[error("no open of this client waits for it")]
    NoOpen,
    #[error("the server stops")]
    Stopping,
    #[error(transparent)]
    Input(#[from] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
}

/// Random bytes of a challenge. They are the only protection of a data connection.
const CHALLENGE_BYTES: usize = 16;

impl ExpectedConnections {
    /// Expects the data connection of an open; `None` without random numbers.
    pub(crate) fn expect(&self, session: u32, address: IpAddr) -> Option<Expectation<'_>> {
        let challenge = random_challenge()?;
        let (give, connection) = oneshot::channel();
        self.opens.lock().insert(challenge.clone(), Expected { session, address: address.to_canonical(), give });
        Some(Expectation { challenge, connection, among: self })
    }

    /// Receives the greeting of a data connection, and gives the connection to its open.
    pub(crate) async fn take_in(&self, client: NewClient, state: &State, mut stop: watch::Receiver<bool>) {
        let address = client.peer;
        let ended = tokio::select! {
            ended = timeout(state.options.request_time_max, self.give(client, state)) => {
                ended.unwrap_or(Err(Unexpected::Slow))
            }
            () = stopped(&mut stop) => Err(Unexpected::Stopping),
        };
        if let Err(reason) = ended
            && state.front.refusal_log.has_room()
        {
            tracing::info!(peer = %address, %reason, "data connection closed");
        }
    }

    async fn give(&self, client: NewClient, state: &State) -> Result<(), Unexpected> {
        let NewClient { stream, peer, places, .. } = client;
        let ConnectionPlaces { in_total, of_client, login } = places;
        let gauge = state.front.backend.metrics().open_connection();
        let mut received = Vec::new();
        let (greeting, len) = loop {
            if let Some(known) = Greeting::parse(&received)? {
                break known;
            }
            if !receive(&stream, |bytes| received.extend_from_slice(bytes)).await? {
                return Err(Unexpected::Closed);
            }
        };
        received.drain(..len);
        let expected = self.take(&greeting, peer).ok_or(Unexpected::NoOpen)?;
        drop(login);
        let connection = DataConnection { stream, received, _in_total: in_total, _of_client: of_client, _gauge: gauge };
        expected.give.send(connection).map_err(|_| Unexpected::NoOpen)
    }

    /// The open of a greeting. A challenge counts once, for one session of one address.
    fn take(&self, greeting: &Greeting, peer: SocketAddr) -> Option<Expected> {
        let challenge = std::str::from_utf8(&greeting.challenge).ok()?;
        let expected = self.opens.lock().remove(challenge)?;
        (expected.session == greeting.session && expected.address == peer.ip().to_canonical()).then_some(expected)
    }
}

impl Expectation<'_> {
    /// Waits for the connection; `None` if a wrong client has used the challenge.
    pub(crate) async fn arrival(&mut self) -> Option<DataConnection> {
        (&mut self.connection).await.ok()
    }
}

impl Drop for Expectation<'_> {
    fn drop(&mut self) {
        self.among.opens.lock().remove(&self.challenge);
    }
}

fn random_challenge() -> Option<String> {
    let mut bytes = [0; CHALLENGE_BYTES];
    let len = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok()?;
    // The kernel gives up to 256 bytes at once.
    (len == CHALLENGE_BYTES).then(|| bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(session: u32, challenge: &str) -> Greeting {
        Greeting { session, challenge: challenge.as_bytes().to_vec() }
    }

    #[test]
    fn a_challenge_counts_once_for_its_session_and_address() {
        let expected = ExpectedConnections::default();
        let (client, other): (SocketAddr, SocketAddr) =
            ("192.0.2.1:1000".parse().unwrap(), "192.0.2.2:1000".parse().unwrap());
        let open = |session| expected.expect(session, client.ip()).unwrap();
        let (right, wrong_session, wrong_address, dropped) = (open(1), open(2), open(3), open(4));
        assert_ne!(right.challenge, wrong_session.challenge);
        assert!(expected.take(&greeting(1, &right.challenge), client).is_some());
        assert!(expected.take(&greeting(1, &right.challenge), client).is_none());
        assert!(expected.take(&greeting(1, &wrong_session.challenge), client).is_none());
        assert!(expected.take(&greeting(3, &wrong_address.challenge), other).is_none());
        let challenge = dropped.challenge.clone();
        drop(dropped);
        assert!(expected.take(&greeting(4, &challenge), client).is_none());
    }
}
