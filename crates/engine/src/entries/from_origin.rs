//! Files that were opened at their origin.

use crate::entries::last_check::LastCheck;
use forebay_origin::OriginFile;
use forebay_types::FileStat;
use std::sync::Arc;

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
