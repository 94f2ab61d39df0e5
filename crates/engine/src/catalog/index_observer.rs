//! The observer that keeps an account of entries along with the index.

use forebay_cache::CacheKey;
use forebay_index::{Applied, Record};

/// Is notified of every entry in the index, and of every change, in the order of the changes. The methods run on a
/// worker and must
/// not wait.
pub(crate) trait IndexObserver: Send + Sync + 'static {
    /// Everything reported so far is void: every entry is reported again.
    fn begin(&self);

    /// The index has this entry.
    fn found(&self, key: &CacheKey, record: &Record);

    /// A change was committed.
    fn changed(&self, applied: &Applied);
}

impl IndexObserver for () {
    fn begin(&self) {}

    fn found(&self, _key: &CacheKey, _record: &Record) {}

    fn changed(&self, _applied: &Applied) {}
}
