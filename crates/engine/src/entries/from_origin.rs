//! Files that were opened at their origin, and when they were last found to be there.

use crate::entries::stored_entry::StoredEntry;
use forebay_origin::OriginFile;
use forebay_store::last_check;
use forebay_types::FileStat;
use std::{sync::Arc, time::Instant};

/// A file that was opened at its origin.
#[derive(Clone)]
pub(crate) struct FromOrigin {
    pub(crate) file: Arc<dyn OriginFile>,
    /// When the origin was asked to open it.
    pub(crate) asked: LastCheck,
}

/// A grant of an origin to a client, given just now, with what came along.
#[derive(Clone)]
pub(crate) enum OriginGrant {
    /// To know of the file: this.
    Stat(FileStat),
    /// To read the file, which is open.
    Open(FromOrigin),
}

/// When a file was last found to be its origin's.
#[derive(Clone, Copy)]
pub(crate) struct LastCheck {
    /// In seconds of the Unix epoch.
    pub(crate) unix: i64,
    /// `None` when that was before this process had it open.
    pub(crate) at: Option<Instant>,
}

impl LastCheck {
    /// The origin is asked for the file from now on: what it answers may be as old as this.
    pub(crate) fn begun_now() -> Self {
        Self { unix: forebay_net::clock::now_unix(), at: Some(forebay_net::clock::monotonic()) }
    }

    /// Taken from the record on disk: an entry is created when its file was opened at the origin.
    pub(crate) fn of(stored: Option<&StoredEntry>) -> Self {
        let unix = stored.map_or(i64::MIN, |stored| {
            let record = stored.record.lock();
            last_check(&record.cinfo, record.mark.as_ref())
        });
        Self { unix, at: None }
    }

    pub(crate) fn is_since(&self, began: Instant) -> bool {
        // Without an instant the check belongs to an earlier process, and no open of this one began before it.
        self.at.is_some_and(|at| at >= began)
    }
}
