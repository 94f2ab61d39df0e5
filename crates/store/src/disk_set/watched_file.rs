//! A data file whose operations update the health of its disk.

use crate::{DataFile, FileIdentity, VolumeId, disk_set::volume::Volume};
use bytes::Bytes;
use std::{fs::File, io, sync::Arc};

/// A data file of a disk that is watched.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    volume: Arc<Volume>,
    data: Arc<dyn DataFile>,
}

impl WatchedFile {
    pub(crate) fn new(volume: Arc<Volume>, data: Arc<dyn DataFile>) -> Self {
        Self { volume, data }
    }
}

impl DataFile for WatchedFile {
    fn file(&self) -> &Arc<File> {
        self.data.file()
    }

    fn identity(&self) -> FileIdentity {
        self.data.identity()
    }

    fn volume(&self) -> VolumeId {
        self.volume.id()
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
