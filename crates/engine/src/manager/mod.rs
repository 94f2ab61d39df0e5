//! A data manager: it keeps and serves nothing. It sends clients to complete files of a store that another process fills, with all
//! else to that process, and to the origin while that does not answer.

pub(crate) mod dispatch;
pub(crate) mod filler;

use crate::base::{
    options::{ManagerOptions, Ping},
    workers::Workers,
};
use forebay_store::SharedView;
use parking_lot::Mutex;
use std::{sync::Arc, time::Instant};
use tokio::sync::Semaphore;

/// A data manager.
pub(crate) struct Manager {
    view: SharedView,
    filler: filler::Filler,
    ping: Ping,
    /// Looks at the store that may begin.
    looks: Arc<Semaphore>,
    workers: Workers,
    /// When it was logged last that the store cannot be used.
    warned: Mutex<Option<Instant>>,
}

/// Looks at the store at the same time, at most: each has a thread as long as the file system does not answer. Who finds none free
/// is sent to the filler.
const LOOKS_MAX: usize = 64;

/// Permissions by which other users than the server can read a file.
const READ_BY_OTHERS: u32 = 0o044;

impl Manager {
    pub(crate) fn new(options: ManagerOptions, direct_mode: u32, workers: Workers) -> Self {
        Self {
            view: SharedView::new(options.roots, direct_mode & READ_BY_OTHERS),
            filler: filler::Filler::new(options.filler),
            ping: options.ping,
            looks: Arc::new(Semaphore::new(LOOKS_MAX)),
            workers,
            warned: Mutex::new(None),
        }
    }

    pub(crate) fn filler_state(&self) -> filler::FillerState {
        self.filler.state()
    }
}
