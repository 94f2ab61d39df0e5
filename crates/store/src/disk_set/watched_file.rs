//! Open files and walks of a disk that is watched: their operations update its health.

use crate::{DataFile, FileIdentity, FileState, Scan, ScanSlice, StoreError, VolumeId, disk_set::volume::Volume};
use bytes::Bytes;
use std::{fs::File, io, sync::Arc};

#[derive(Debug)]
pub(crate) struct WatchedFile {
    pub(crate) volume: Arc<Volume>,
    pub(crate) data: Arc<dyn DataFile>,
}

impl DataFile for WatchedFile {
    fn file(&self) -> &Arc<File> {
        self.data.file()
    }

    fn identity(&self) -> FileIdentity {
        self.data.identity()
    }

    fn volume(&self) -> VolumeId {
        self.volume.id
    }

    fn state_when_opened(&self) -> Option<FileState> {
        self.data.state_when_opened()
    }

    fn is_writable(&self) -> bool {
        self.data.is_writable()
    }

    fn write_vectored_at(&self, offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        self.volume.run_on_file(|| self.data.write_vectored_at(offset, chunks))
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.volume.run_on_file(|| self.data.read_exact_at(buffer, offset))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.volume.run_sync(|| self.data.sync_data())
    }
}

/// A walk whose failures count for the disk, and which ends when the disk goes offline.
pub(crate) struct WatchedScan {
    pub(crate) volume: Arc<Volume>,
    pub(crate) scan: Box<dyn Scan>,
}

/// Names that are examined in one operation: some reads of a disk that has nothing in memory.
const NAMES_PER_OPERATION: usize = 8;

impl Scan for WatchedScan {
    fn next_slice(&mut self, limit: usize) -> Result<ScanSlice, StoreError> {
        let mut slice = ScanSlice::default();
        let mut left = limit;
        while left > 0 && !slice.is_last {
            let names = left.min(NAMES_PER_OPERATION);
            left -= names;
            let scan = &mut self.scan;
            slice.append(self.volume.run(|_| scan.next_slice(names))?);
        }
        Ok(slice)
    }
}
