//! Writing the uses of closed files to their records, many at a time.

use crate::entries::{closed_files::ClosedFile, file_context::FileContext};
use forebay_cache::{CacheKey, Cinfo};
use forebay_store::{DataFile, NewRecord, StoreError};
use forebay_telemetry::DiskOperation;
use parking_lot::Mutex;
use std::sync::Arc;

/// A closed file whose record is being written.
struct Saving<'a> {
    key: &'a CacheKey,
    turn: &'a Arc<Mutex<()>>,
    file: ClosedFile,
    /// Open, so that no other file gets its identity before the record is in place.
    data: Arc<dyn DataFile>,
    cinfo: Cinfo,
}

/// Writes the records of `keys`, which are closed files of one disk. Blocking.
///
/// An open in the meantime gets the file at once; what it changes is written after this.
pub(crate) fn save_uses_of(context: &FileContext, keys: &[CacheKey]) {
    let Some(disk) = &context.disk else { return };
    let turns: Vec<Arc<Mutex<()>>> = keys.iter().map(|_| Arc::default()).collect();
    // Held to the end: syncs of these files come after it.
    let held: Vec<_> = turns.iter().map(|turn| turn.lock()).collect();
    let begin = |(key, turn): (&'_ CacheKey, _)| {
        let file = context.closed.begin_save(key, turn)?;
        let opened = file.open_data(disk.as_ref(), key).zip(file.cinfo());
        let Some((data, cinfo)) = opened else {
            // It is not what was closed: the next open looks at what is there.
            context.closed.end_save(key, turn, false, |_| ());
            return None;
        };
        Some((file, data, cinfo))
    };
    let mut savings = Vec::with_capacity(keys.len());
    for (key, turn) in keys.iter().zip(&turns) {
        if let Some((file, data, cinfo)) = begin((key, turn)) {
            savings.push(Saving { key, turn, file, data, cinfo });
        }
    }
    let records: Vec<NewRecord<'_>> = savings.iter().map(Saving::new_record).collect();
    let written = disk.write_cinfos(&records);
    drop(records);
    for (saving, written) in savings.into_iter().zip(written) {
        match &written {
            // Removed or replaced under way: there is no record to write.
            Ok(()) | Err(StoreError::Superseded { .. }) => {}
            Err(error) => context.note_store_failure(DiskOperation::Cinfo, Some(saving.file.volume), error),
        }
        let Saving { key, turn, .. } = saving;
        context.closed.end_save(key, turn, written.is_ok(), |file| context.note_closed(key, file));
    }
    drop(held);
}

impl Saving<'_> {
    fn new_record(&self) -> NewRecord<'_> {
        let Self { key, file, data, cinfo, .. } = self;
        NewRecord { key, data: data.as_ref(), cinfo, origin: file.origin(), is_first: false }
    }
}
