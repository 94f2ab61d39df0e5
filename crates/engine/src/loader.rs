//! Making an open file: from what the disk holds of it, else from its origin.

use crate::{Error, cached::CachedFile, cached::file_stat, kept::Kept, routes::OriginTarget, shared::Shared};
use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry, Trust};
use forebay_origin::{FileIdentity, OriginError, OriginFile};
use forebay_store::{Entry, OriginMark, StoreError};
use forebay_telemetry::{DiskOperation, NotKept};
use forebay_types::{BlockSize, FileStat};
use std::{os::unix::fs::MetadataExt, sync::Arc};

/// Loads a file into the table: from the disk when it holds a part of it, else from the origin.
pub(crate) async fn load(shared: Arc<Shared>, target: OriginTarget) -> Result<Arc<CachedFile>, Error> {
    let Some(key) = target.key.clone() else { return Err(Error::Internal { what: "a file without a key was loaded" }) };
    if let Some(entry) = open_entry(&shared, key.clone(), true).await {
        let (geometry, mtime) = (entry.cinfo.geometry, mtime_of(&entry));
        let kept = Some(shared.found(entry));
        return Ok(Arc::new(CachedFile::new(shared, target, geometry, mtime, kept, None)));
    }
    let origin_file = target.origin.open(&target.path).await?;
    let identity = origin_file.identity();
    let Some(kept) = create_entry(&shared, key, &identity).await else {
        return Ok(Arc::new(unkept(&shared, target, origin_file)?));
    };
    let geometry = kept.map.geometry();
    let file = CachedFile::new(shared, target, geometry, identity.mtime, Some(kept), Some(origin_file));
    Ok(Arc::new(file))
}

/// A file whose name cannot be kept, opened at its origin.
pub(crate) async fn load_unkept(shared: &Arc<Shared>, target: OriginTarget) -> Result<Arc<CachedFile>, Error> {
    shared.metrics.add_not_kept(NotKept::Decision, 1);
    let origin_file = target.origin.open(&target.path).await?;
    Ok(Arc::new(unkept(shared, target, origin_file)?))
}

/// What is known of a file that is on disk but not open.
pub(crate) async fn stat_on_disk(shared: &Arc<Shared>, target: &OriginTarget) -> Option<FileStat> {
    let entry = open_entry(shared, target.key.clone()?, false).await?;
    Some(file_stat(target, entry.cinfo.geometry.file_size(), mtime_of(&entry), entry.cinfo.is_complete()))
}

/// A file that is passed through without keeping it.
fn unkept(shared: &Arc<Shared>, target: OriginTarget, origin_file: Arc<dyn OriginFile>) -> Result<CachedFile, Error> {
    let identity = origin_file.identity();
    let too_large = |error: forebay_cache::GeometryError| {
        Error::Origin(OriginError::Protocol { endpoint: identity.endpoint.clone(), what: error.to_string() })
    };
    let geometry = Geometry::of_new_file(BlockSize::MAX, identity.size).map_err(too_large)?;
    Ok(CachedFile::new(Arc::clone(shared), target, geometry, identity.mtime, None, Some(origin_file)))
}

/// What the disk holds under `key`, if anything; a disk that fails holds nothing.
pub(crate) async fn open_entry(shared: &Arc<Shared>, key: CacheKey, is_access: bool) -> Option<Entry> {
    let disk = Arc::clone(shared.disk.as_ref()?);
    let opening = Arc::clone(shared);
    let opened = shared.options.workers.run(move || {
        let entry = disk.open_entry(&key)?;
        if let Some(entry) = entry.as_ref().filter(|_| is_access) {
            let now = forebay_net::clock::now_unix();
            if let Err(error) = disk.touch(&key, now) {
                opening.note_store_failure(DiskOperation::Open, &error);
            }
            opening.note_entry(&key, entry.data.as_ref(), &entry.cinfo, entry.origin.as_ref(), now);
        }
        Ok::<_, StoreError>(entry)
    });
    match opened.await {
        Ok(Ok(entry)) => entry,
        Ok(Err(error)) => {
            shared.note_store_failure(DiskOperation::Open, &error);
            None
        }
        Err(_) => None,
    }
}

/// When the file of an entry last changed: at its origin, or, for entries of XCache that do not tell, on our disk.
fn mtime_of(entry: &Entry) -> i64 {
    let changed_here = || entry.data.file().metadata().map_or(0, |metadata| metadata.mtime());
    entry.origin.as_ref().map_or_else(changed_here, |mark| mark.mtime)
}

/// Makes a new entry on disk; `None`, and counted, when the disk does not take it.
async fn create_entry(shared: &Arc<Shared>, key: CacheKey, identity: &FileIdentity) -> Option<Kept> {
    let disk = Arc::clone(shared.disk.as_ref()?);
    if shared.pause.is_on() {
        shared.metrics.add_not_kept(NotKept::DiskError, 1);
        return None;
    }
    let geometry = Geometry::of_new_file(shared.options.block_size, identity.size).ok()?;
    let cinfo = Cinfo::new(geometry, forebay_net::clock::now_unix(), ChecksumState::Net);
    let mark = OriginMark::new(identity.endpoint.clone(), identity.mtime);
    let creating = Arc::clone(shared);
    let created = shared.options.workers.run(move || {
        let entry = disk.create_entry(&key, cinfo, Some(mark))?;
        creating.note_entry(&key, entry.data.as_ref(), &entry.cinfo, entry.origin.as_ref(), entry.cinfo.created);
        Ok::<_, StoreError>(Kept::new(entry, Trust::Given))
    });
    match created.await {
        Ok(Ok(kept)) => Some(kept),
        Ok(Err(error)) => {
            let reason = if error.is_out_of_space() { NotKept::DiskFull } else { NotKept::DiskError };
            shared.metrics.add_not_kept(reason, 1);
            shared.note_store_failure(DiskOperation::Open, &error);
            None
        }
        Err(_) => None,
    }
}
