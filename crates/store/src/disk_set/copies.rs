//! Which of two copies of an entry is kept.

use crate::Entry;
use forebay_types::ValidatorMatch;

/// Whether `entry` is better than `kept`, another copy of the same key on another disk.
///
/// Of two copies of the same content the complete one is better. Otherwise, or when both are complete or neither is, the one
/// that was created later: it is what the origin gave last. Equal copies are equally good.
pub(crate) fn is_better(entry: &Entry, kept: &Entry) -> bool {
    if is_same_content(entry, kept) {
        match (entry.cinfo.is_complete(), kept.cinfo.is_complete()) {
            (true, false) => return true,
            (false, true) => return false,
            (true, true) | (false, false) => {}
        }
    }
    // Of different contents the newer one is more likely to be the origin's.
    entry.cinfo.created > kept.cinfo.created
}

/// Whether two copies are known to be of one content: of one size, and with validators of one server that agree.
fn is_same_content(entry: &Entry, kept: &Entry) -> bool {
    let is_same_mark = match (&entry.origin, &kept.origin) {
        (Some(one), Some(other)) => {
            one.origin == other.origin && one.validator.compare(&other.validator) == ValidatorMatch::Same
        }
        _ => false,
    };
    is_same_mark && entry.cinfo.geometry.file_size() == kept.cinfo.geometry.file_size()
}
