//! Making complete files readable by other processes, which read them from a file system that they share with this server.
//!
//! Files are created for this server alone. They become readable by others when all of their blocks are on disk and trusted, and
//! private again before a block is taken back: a late reader finds no file, or may not read it, but never reads a hole as data.

use crate::entries::cached_file::CachedFile;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use std::{
    fs::Permissions,
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

/// Permissions by which other users than the server can read a file.
const READ_BY_OTHERS: u32 = 0o044;

const ACCESSED_NOW: Timestamps = Timestamps {
    last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
    last_modification: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
};

/// Treatment of a file's time of last access when it is made world-readable.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Access {
    /// It is now: a client is about to read it.
    Now,
    /// It is not read yet.
    AsItIs,
}

/// How long the disk may take to open a file to others; then it is served.
const DISK_TIME_MAX: Duration = Duration::from_secs(5);

impl CachedFile {
    /// Where other processes can read all of the file, opened to them if need be; `None` when something is missing or not to be
    /// trusted, or the disk does not say in time.
    pub(crate) async fn readable_path(self: &Arc<Self>) -> Option<PathBuf> {
        // Cheap and without the disk: most files that are asked for here are not complete.
        if self.is_retired() || !self.stored.as_ref()?.is_whole() {
            return None;
        }
        let file = Arc::clone(self);
        let opened = self.context.options.workers.run(move || file.open_to_others(Access::Now));
        match tokio::time::timeout(DISK_TIME_MAX, opened).await {
            Ok(Ok(Ok(path))) => path,
            Ok(Ok(Err(error))) => {
                tracing::warn!(lfn = self.lfn().as_str(), %error, "cannot make the cached file world-readable");
                None
            }
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// Opens a file that is whole to others before anybody asks, where that is wanted of it. Blocking.
    pub(crate) fn publish(&self) {
        if !self.target.service.direct {
            return;
        }
        if let Err(error) = self.open_to_others(Access::AsItIs) {
            tracing::warn!(lfn = self.lfn().as_str(), %error, "cannot make the cached file world-readable");
        }
    }

    /// Returns the path that other processes read. Blocking.
    fn open_to_others(&self, access: Access) -> io::Result<Option<PathBuf>> {
        let (Some(stored), Some(key)) = (self.stored.as_ref(), self.key()) else { return Ok(None) };
        let volumes = self.context.volumes.lock();
        let volume = volumes.iter().find(|volume| volume.id == stored.data.volume()).map(|volume| volume.path.clone());
        // The list is shared with the disk watch: it is not held during the look at the disk.
        drop(volumes);
        let Some(path) = volume.map(|root| root.join(key.as_str().trim_start_matches('/'))) else { return Ok(None) };
        let identity = stored.data.identity();
        let there = path.metadata()?;
        // Another file may have been put in its place by hand: only the one whose blocks are known is given out.
        let is_it = (there.dev(), there.ino()) == (identity.device, identity.inode);
        // The path becomes a URL and a line of the protocol: such characters would end it early.
        let is_name_good = path.to_str().is_some_and(|path| !path.contains(['?', '\0', '\n']));
        if !is_it || !is_name_good {
            return Ok(None);
        }
        let mode = self.context.options.direct_mode;
        stored.publish(|| {
            // Permissions that suffice already cost no write to the inode.
            if there.mode() & READ_BY_OTHERS & mode != READ_BY_OTHERS & mode {
                stored.data.file().set_permissions(Permissions::from_mode(mode))?;
            }
            if access == Access::Now {
                // Should this process end, the next one leaves the file alone for as long. It is a courtesy, and may fail.
                let _ = futimens(&**stored.data.file(), &ACCESSED_NOW);
            }
            Ok(path)
        })
    }
}
