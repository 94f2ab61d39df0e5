//! The front as a whole.

use crate::{
    connection::{self, TLS_FIRST_BYTE},
    options::Options,
    state::State,
};
use forebay_front::{Front, NewClient, SecondProtocol, Serving};
use std::sync::Arc;
use tokio::sync::watch;

/// Serves clients of HTTP and HTTPS.
pub struct HttpFront {
    state: Arc<State>,
}

impl HttpFront {
    pub fn new(front: Arc<Front>, options: Options) -> Self {
        Self { state: Arc::new(State::new(front, options)) }
    }
}

impl SecondProtocol for HttpFront {
    fn claims(&self, first_byte: u8) -> bool {
        match first_byte {
            TLS_FIRST_BYTE => self.state.options.tls.is_some(),
            // Methods are words of letters. Some clients send an empty line before one.
            byte => byte.is_ascii_alphabetic() || byte == b'\r',
        }
    }

    fn serve(self: Arc<Self>, client: NewClient, stop: watch::Receiver<bool>) -> Serving {
        Box::pin(connection::serve(Arc::clone(&self.state), client, stop))
    }
}
