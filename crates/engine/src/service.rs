//! How clients get at files of origins, and how much of a file is fetched for them.

use forebay_cache::FillPolicy;

/// How clients get at the files of an export, or of the origins that they name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Service {
    /// Whether clients that see the cache's file system read complete files on their own.
    pub direct: bool,
    /// How much of a file is fetched, unless a rule says otherwise; `None` for what counts for the whole cache.
    pub fill: Option<FillPolicy>,
}
