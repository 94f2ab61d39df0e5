//! A walk over a disk of a set.

use crate::{Scan, ScanSlice, StoreError, disk_set::volume::Volume};
use std::sync::Arc;

/// A walk whose failures count for the disk, and which ends when the disk goes offline.
pub(crate) struct WatchedScan {
    volume: Arc<Volume>,
    scan: Box<dyn Scan>,
}

impl WatchedScan {
    pub(crate) fn new(volume: Arc<Volume>, scan: Box<dyn Scan>) -> Self {
        Self { volume, scan }
    }
}

impl Scan for WatchedScan {
    fn next_slice(&mut self, limit: usize) -> Result<ScanSlice, StoreError> {
        let scan = &mut self.scan;
        self.volume.run(|_| scan.next_slice(limit))
    }
}
