//! Whether a file at its origin is the one whose blocks are here.

use crate::entries::{cached_file::CachedFile, from_origin::LastCheck};
use forebay_cache::Remembered;
use forebay_origin::{Checksum, FileIdentity};
use forebay_store::OriginMark;
use forebay_types::ValidatorMatch;
use std::time::Instant;

impl CachedFile {
    /// Whether the origin's file is the one whose blocks are here: of the same size, and unchanged at the same server.
    pub(crate) fn matches(&self, identity: &FileIdentity) -> bool {
        // The cheapest proof first: files of another size have another content.
        if identity.size != self.size() {
            return false;
        }
        let Some(stored) = self.stored.as_ref() else { return true };
        let mut record = stored.record.lock();
        if let Some(mark) = &record.mark {
            // A replica has the same content until a check shows otherwise; at its own server the file must prove it.
            return if mark.origin == identity.origin {
                mark.validator.compare(&identity.validator) == ValidatorMatch::Same
            } else {
                mark.validator.compare_replica(&identity.validator) != ValidatorMatch::Different
            };
        }
        // An entry of XCache has no mark: the first open at the origin provides it.
        record.mark = Some(OriginMark::new(identity.origin.clone(), identity.validator.clone()));
        record.note_change();
        true
    }

    /// Whether `identity` is that of a replica at another server than the one that the file was taken from. Of a file that is
    /// not kept that is not known, and nothing is lost when it is opened again.
    pub(crate) fn is_replica(&self, identity: &FileIdentity) -> bool {
        if self.stored.as_ref().is_none() {
            return false;
        }
        let is_elsewhere = |mark: &OriginMark| {
            mark.origin != identity.origin
                && mark.validator.compare_replica(&identity.validator) != ValidatorMatch::Different
        };
        identity.size == self.size() && self.mark().as_ref().is_none_or(is_elsewhere)
    }

    /// Notes that the file was its origin's at `unix` (seconds of the Unix epoch), and at `at` or later.
    pub(crate) fn note_checked(&self, unix: i64, at: Instant) {
        *self.last_check.lock() = LastCheck { unix, at: Some(at) };
        self.change_mark(|mark| mark.checked = Some(unix));
    }

    /// The properties that distinguish the file from another one under its name.
    pub(crate) fn remembered(&self) -> Remembered {
        let size = self.size();
        let Some(stored) = self.stored.as_ref() else {
            // Without blocks on disk nothing can be older than the time of change shows.
            return Remembered { size, validator: self.validator.clone(), created: i64::MAX };
        };
        let record = stored.record.lock();
        let validator = record.mark.as_ref().map(|mark| mark.validator.clone()).unwrap_or_default();
        Remembered { size, validator, created: record.cinfo.created }
    }

    /// The file's mark of its origin, if one is known.
    pub(crate) fn mark(&self) -> Option<OriginMark> {
        self.stored.as_ref().and_then(|stored| stored.record.lock().mark.clone())
    }

    /// Notes where the file is at its origin, and when it was changed there.
    pub(crate) fn note_identity(&self, identity: &FileIdentity) {
        let Some(stored) = self.stored.as_ref() else { return };
        let mut record = stored.record.lock();
        let known = record.mark.take();
        let checksum = identity.validator.checksum();
        // An origin that reports no checksum now has not withdrawn the one known before.
        let checksum = checksum.or_else(|| known.as_ref().and_then(|mark| mark.validator.checksum()));
        let validator = identity.validator.clone().with_checksum(checksum.cloned());
        record.mark = Some(OriginMark {
            checked: known.as_ref().and_then(|mark| mark.checked),
            ..OriginMark::new(identity.origin.clone(), validator)
        });
        record.note_change();
    }

    pub(crate) fn note_checksum(&self, checksum: &Checksum) {
        self.change_mark(|mark| {
            mark.validator = std::mem::take(&mut mark.validator).with_checksum(Some(checksum.clone()));
        });
    }

    fn change_mark(&self, change: impl FnOnce(&mut OriginMark)) {
        let Some(stored) = self.stored.as_ref() else { return };
        let mut record = stored.record.lock();
        if let Some(mark) = &mut record.mark {
            change(mark);
            record.note_change();
        }
    }
}
