//! A data file on a local file system.

use crate::{DataFile, FileIdentity, FileState, VolumeId};
use bytes::Bytes;
use rustix::{
    fs::{OFlags, fcntl_getfl},
    io::Errno,
};
use std::{
    fs::{File, Metadata},
    io::{self, IoSlice},
    os::unix::fs::{FileExt, MetadataExt},
    sync::Arc,
};

/// Most chunks of one write: Linux's `IOV_MAX`.
const CHUNKS_PER_WRITE_MAX: usize = 1024;

#[derive(Debug)]
pub(crate) struct LocalFile {
    file: Arc<File>,
    identity: FileIdentity,
    state_when_opened: Option<FileState>,
    volume: VolumeId,
    is_writable: bool,
}

impl LocalFile {
    /// Takes over an open file on `volume`, with its metadata.
    pub(crate) fn new(volume: VolumeId, file: File, metadata: &Metadata) -> Self {
        // It was opened for reading only where the file system refuses writes.
        let is_writable = fcntl_getfl(&file).is_ok_and(|flags| flags.contains(OFlags::RDWR));
        Self { is_writable, ..Self::writable(volume, file, metadata) }
    }

    /// As [`Self::new`], for a file that was opened for writing.
    pub(crate) fn writable(volume: VolumeId, file: File, metadata: &Metadata) -> Self {
        let state = FileState::of(metadata);
        Self {
            file: Arc::new(file),
            identity: state.identity,
            state_when_opened: Some(state),
            volume,
            is_writable: true,
        }
    }

    /// Takes over a file that was created just now, which may be written.
    pub(crate) fn created(volume: VolumeId, file: File) -> io::Result<Self> {
        let identity = identity_of(&file.metadata()?);
        Ok(Self { file: Arc::new(file), identity, state_when_opened: None, volume, is_writable: true })
    }
}

impl DataFile for LocalFile {
    fn file(&self) -> &Arc<File> {
        &self.file
    }

    fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn volume(&self) -> VolumeId {
        self.volume
    }

    fn state_when_opened(&self) -> Option<FileState> {
        self.state_when_opened
    }

    fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn write_vectored_at(&self, mut offset: u64, chunks: &[Bytes]) -> io::Result<()> {
        // The kernel refuses longer vectors with `EINVAL`.
        for group in chunks.chunks(CHUNKS_PER_WRITE_MAX) {
            let mut slices: Vec<IoSlice<'_>> =
                // Empty chunks would look like a write of nothing, which is an error.
                group.iter().filter(|chunk| !chunk.is_empty()).map(|chunk| IoSlice::new(chunk)).collect();
            let mut rest = slices.as_mut_slice();
            while !rest.is_empty() {
                match rustix::io::pwritev(&self.file, rest, offset) {
                    // Without progress the loop would never end.
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(written) => {
                        IoSlice::advance_slices(&mut rest, written);
                        offset = offset.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        Ok(())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn identity_of(metadata: &Metadata) -> FileIdentity {
    FileIdentity { device: metadata.dev(), inode: metadata.ino() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn local(file: File) -> LocalFile {
        let metadata = file.metadata().unwrap();
        LocalFile::new(VolumeId(0), file, &metadata)
    }

    #[test]
    fn more_chunks_than_one_write_takes_land_in_order() {
        let data = local(tempfile::tempfile().unwrap());
        let bytes: Vec<u8> = (0..5000_u32).flat_map(|n| n.to_le_bytes()).collect();
        let mut chunks: Vec<Bytes> = bytes.chunks(7).map(Bytes::copy_from_slice).collect();
        chunks.insert(3, Bytes::new());
        assert!(chunks.len() > 2 * CHUNKS_PER_WRITE_MAX);
        data.write_vectored_at(1000, &chunks).unwrap();
        let mut back = vec![1; 1000 + bytes.len()];
        data.read_exact_at(&mut back, 0).unwrap();
        assert!(back[..1000].iter().all(|&byte| byte == 0));
        assert_eq!(back[1000..], bytes);
        assert_eq!(data.read_exact_at(&mut back, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        data.sync_data().unwrap();
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let Ok(full) = File::options().write(true).open("/dev/full") else {
            return;
        };
        let error = local(full).write_vectored_at(0, &[Bytes::from_static(b"x")]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
