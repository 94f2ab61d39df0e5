//! How clients get at files of origins, and how much of a file is fetched for them.

use forebay_cache::FillPolicy;

/// How clients get at the files of an export, or of the origins that they name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Service {
    /// Whether clients that see the cache's file system read complete files on their own.
    pub direct: bool,
    /// Treatment of opens of files that are not complete.
    pub miss: Miss,
    /// How much of a file is fetched, unless a rule says otherwise; `None` for what counts for the whole cache.
    pub fill: Option<FillPolicy>,
}

/// Treatment of an open of a file that is not complete in the cache.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Miss {
    /// The client reads it through the cache.
    #[default]
    Proxy,
    /// The client is sent to the origin, and the cache fetches the whole file by itself. A client that cannot follow reads through the cache.
    Redirect,
}
