//! Decisions about opens, apart from where their paths lead, and how clients get at files.

use forebay_cache::{CacheKey, CachedCriteria, FillPolicy, NegativeAnswers, Rules, ValidityPolicy};
use forebay_origin::OriginError;
use parking_lot::Mutex;
use std::{fmt, time::Duration};

/// Decisions about opens, apart from where their paths lead. They are replaced together with the name space.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionOptions {
    /// Caching rules for opens of files of origins.
    pub rules: Rules,
    /// When a file that is there in part counts as cached.
    pub cached: CachedCriteria,
    /// How long a name that an origin has not is remembered; zero for not at all.
    pub negative_time: Duration,
    /// How long an open waits for its copy to be compared with the origin; then the check has failed.
    pub check_time_max: Duration,
    /// How copies of files are kept valid whose origin the client names.
    pub forwarding_validity: ValidityPolicy,
    /// Whether origins that clients name authorize a client before it gets bytes from the cache.
    pub forwarding_authorizes_at_origin: bool,
    /// How clients get at files of origins that they name.
    pub forwarding_service: Service,
    /// Whether the names of a Rucio file at several origins have one entry, if they report the same size and checksum.
    pub shares_rucio_files: bool,
}

/// The options at work, and the names that origins have not.
pub(crate) struct Decisions {
    pub(crate) options: DecisionOptions,
    negatives: Mutex<NegativeAnswers<OriginError>>,
}

/// Longest text of an origin that is remembered, in characters: it bounds the memory for names that are not there.
const TEXT_LEN_MAX: usize = 256;

impl Default for DecisionOptions {
    fn default() -> Self {
        Self {
            rules: Rules::default(),
            cached: CachedCriteria::default(),
            negative_time: Duration::from_secs(5),
            check_time_max: Duration::from_secs(10),
            forwarding_validity: ValidityPolicy::default(),
            forwarding_authorizes_at_origin: false,
            forwarding_service: Service::default(),
            shares_rucio_files: false,
        }
    }
}

impl Decisions {
    pub(crate) fn new(options: DecisionOptions) -> Self {
        Self { negatives: Mutex::new(NegativeAnswers::new(options.negative_time)), options }
    }

    /// The origin's answer if it was asked for this file a moment ago and has none.
    pub(crate) fn missing(&self, key: &CacheKey) -> Option<OriginError> {
        self.negatives.lock().get(key.as_str(), forebay_net::clock::monotonic())
    }

    /// Remembers an origin's answer, if it is that there is no such file.
    pub(crate) fn note_answer(&self, key: &CacheKey, error: &OriginError) {
        // Only a refusal by the origin itself: a lost connection does not show that the file is missing.
        let OriginError::Refused { endpoint, kind, text } = error else { return };
        if error.is_not_found() {
            // Shortened: the text comes from outside, and is kept for every missing name.
            let text = text.chars().take(TEXT_LEN_MAX).collect();
            let answer = OriginError::Refused { endpoint: endpoint.clone(), kind: *kind, text };
            self.negatives.lock().note(key.as_str(), answer, forebay_net::clock::monotonic());
        }
    }

    /// Forgets that there is no such file: a client is about to write it.
    pub(crate) fn forget_missing(&self, key: &CacheKey) {
        self.negatives.lock().forget(key.as_str());
    }
}

impl fmt::Debug for Decisions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

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
