//! Listeners that another protocol shares.

use crate::connection::client_connection::Accepted;
use forebay_front::{NewClient, SecondProtocol, Serving};
use std::sync::Arc;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// The protocols of a listener; by default `root://` alone.
#[derive(Clone, Default)]
pub struct Shared {
    /// The protocol that shares the listener.
    pub with: Option<Arc<dyn SecondProtocol>>,
    /// Whether the listener is not for `root://` at all.
    pub is_without_root: bool,
}

/// First byte of the handshake of `root://`.
const ROOT_FIRST_BYTE: u8 = 0;

impl Shared {
    /// Whether the first byte of a connection has to be looked at.
    pub(crate) const fn is_shared(&self) -> bool {
        self.with.is_some() || self.is_without_root
    }
}

/// The protocol of a connection.
pub(crate) enum Claim {
    Root(Box<Accepted>),
    /// The second protocol, and its work.
    Other(Serving),
}

/// Looks at the first byte of a connection, if its listener is shared. `None` if it is to be closed.
pub(crate) async fn claim(accepted: Accepted, shared: Shared, mut stop: watch::Receiver<bool>) -> Option<Claim> {
    if !shared.is_shared() {
        return Some(Claim::Root(Box::new(accepted)));
    }
    let mut first = [0];
    let time_max = accepted.state.options.login_time_max;
    let overdue = async {
        // An error means that the server is gone.
        let _ = stop.wait_for(|&is_stopped| is_stopped).await;
        sleep(accepted.state.front.first_request_time_max).await;
    };
    let peeked = tokio::select! {
        peeked = timeout(time_max, accepted.stream.peek(&mut first)) => peeked,
        () = overdue => return None,
    };
    let (peer, [first_byte]) = (accepted.peer, first);
    if !matches!(peeked, Ok(Ok(1..))) {
        tracing::debug!(%peer, "connection closed: the client has sent nothing");
        return None;
    }
    if first_byte == ROOT_FIRST_BYTE && !shared.is_without_root {
        return Some(Claim::Root(Box::new(accepted)));
    }
    let Some(other) = shared.with.filter(|other| other.claims(first_byte)) else {
        tracing::info!(%peer, first_byte, "connection closed: the listener does not serve its protocol");
        return None;
    };
    let Accepted { stream, places, .. } = accepted;
    Some(Claim::Other(other.serve(NewClient { stream, first_byte, peer, places }, stop)))
}
