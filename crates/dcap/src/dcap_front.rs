//! The front as a whole.

use crate::{control, expected_connections::ExpectedConnections, options::Options, state::State};
use forebay_front::{Front, NewClient, SecondProtocol, Serving};
use std::sync::Arc;
use tokio::sync::watch;

/// Serves clients of dCap. Control and data connections arrive on the same listeners.
pub struct DcapFront {
    state: Arc<State>,
}

impl DcapFront {
    pub fn new(front: Arc<Front>, options: Options) -> Self {
        let state = State { front, options, expected: ExpectedConnections::default() };
        Self { state: Arc::new(state) }
    }
}

impl SecondProtocol for DcapFront {
    fn claims(&self, first_byte: u8) -> bool {
        // A data connection begins with the highest byte of a session number; lines begin with a number, or with a word.
        first_byte == 0 || first_byte.is_ascii_alphanumeric()
    }

    fn serve(self: Arc<Self>, client: NewClient, stop: watch::Receiver<bool>) -> Serving {
        let state = Arc::clone(&self.state);
        if client.first_byte == 0 {
            Box::pin(async move { state.expected.take_in(client, &state, stop).await })
        } else {
            Box::pin(control::serve(state, client, stop))
        }
    }
}
