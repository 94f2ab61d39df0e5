//! The state that all connections share.

use crate::{facts::CacheStatus, options::Options};
use forebay_front::Front;
use std::sync::Arc;

/// The state that all connections share.
pub(crate) struct State {
    pub(crate) front: Arc<Front>,
    pub(crate) options: Options,
    pub(crate) cache_status: CacheStatus,
}

impl State {
    pub(crate) fn new(front: Arc<Front>, options: Options) -> Self {
        let cache_status = CacheStatus::new(&options.host_name);
        Self { front, options, cache_status }
    }
}
