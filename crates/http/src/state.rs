//! The state that all connections share.

use crate::options::Options;
use forebay_front::Front;
use std::sync::Arc;

/// The state that all connections share.
pub(crate) struct State {
    pub(crate) front: Arc<Front>,
    pub(crate) options: Options,
}
