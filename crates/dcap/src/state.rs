//! The state that all connections share.

use crate::{expected_connections::ExpectedConnections, options::Options};
use forebay_front::Front;
use std::sync::Arc;
use tokio::sync::watch;

/// The state that all connections share.
pub(crate) struct State {
    pub(crate) front: Arc<Front>,
    pub(crate) options: Options,
    pub(crate) expected: ExpectedConnections,
}

/// Waits until the server stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the server is gone, which is a stop, too.
    let _ = stop.wait_for(|&is_stopped| is_stopped).await;
}
