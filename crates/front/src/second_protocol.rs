//! A protocol that shares listeners with another one.

use crate::client_limits::ConnectionPlaces;
use std::{future::Future, net::SocketAddr, pin::Pin, sync::Arc};
use tokio::{net::TcpStream, sync::watch};

/// A protocol that shares listeners with that of the server which accepts the connections. The first byte of a connection decides.
pub trait SecondProtocol: Send + Sync {
    /// Whether a connection that begins with `first_byte` is of this protocol.
    // The byte is looked at before it is taken: the protocol that it belongs to reads the whole stream.
    fn claims(&self, first_byte: u8) -> bool;

    /// Serves a client until it leaves; when `stop` is true, only to the end of the request in progress.
    fn serve(self: Arc<Self>, client: NewClient, stop: watch::Receiver<bool>) -> Serving;
}

/// A client that is being served.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that has been accepted, and within the limits.
pub struct NewClient {
    pub stream: TcpStream,
    /// The first byte, which is not taken off the stream.
    pub first_byte: u8,
    pub peer: SocketAddr,
    pub places: ConnectionPlaces,
}
