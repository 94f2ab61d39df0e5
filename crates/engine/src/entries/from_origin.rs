//! Files that were opened at their origin, and when they were last found to be there.

use crate::entries::stored_entry::StoredEntry;
use forebay_origin::OriginFile;
use forebay_store::last_check;
use forebay_types::FileStat;
use parking_lot::Mutex;
use std::{sync::Arc, time::Instant};

/// A file that was opened at its origin.
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
    Open {
        file: Arc<dyn OriginFile>,
        /// Since when it is known to be its origin's.
        asked: Arc<LastCheck>,
    },
}

impl OriginGrant {
    /// The file, when it was opened.
    pub(crate) fn into_file(self) -> Option<FromOrigin> {
        match self {
            Self::Open { file, asked } => Some(FromOrigin { file, asked: asked.as_ref().clone() }),
            Self::Stat(_) => None,
        }
    }
}

/// When a file was last found to be its origin's.
pub(crate) struct LastCheck(Mutex<Checked>);

#[derive(Clone, Copy)]
struct Checked {
    /// In seconds of the Unix epoch.
    unix: i64,
    /// `None` when that was before this process had it open.
    at: Option<Instant>,
}

impl Clone for LastCheck {
    fn clone(&self) -> Self {
        Self(Mutex::new(*self.0.lock()))
    }
}

impl LastCheck {
    /// The origin is asked for the file from now on: what it answers may be as old as this.
    pub(crate) fn begun_now() -> Self {
        let unix = forebay_net::clock::now_unix();
        let at = forebay_net::clock::monotonic();
        Self(Mutex::new(Checked { unix, at: Some(at) }))
    }

    /// Taken from the record on disk: an entry is created when its file was opened at the origin.
    pub(crate) fn of(stored: Option<&StoredEntry>) -> Self {
        let unix = stored.map_or(i64::MIN, |stored| {
            let record = stored.record.lock();
            last_check(&record.cinfo, record.mark.as_ref())
        });
        Self(Mutex::new(Checked { unix, at: None }))
    }

    /// In seconds of the Unix epoch.
    pub(crate) fn unix(&self) -> i64 {
        self.0.lock().unix
    }

    /// Whether it was since `began`.
    pub(crate) fn is_since(&self, began: Instant) -> bool {
        // Without an instant the check belongs to an earlier process, and no open of this one began before it.
        self.0.lock().at.is_some_and(|at| at >= began)
    }

    /// Notes a check at `unix` (seconds of the Unix epoch), which began at `at`.
    pub(crate) fn set(&self, unix: i64, at: Instant) {
        *self.0.lock() = Checked { unix, at: Some(at) };
    }
}
