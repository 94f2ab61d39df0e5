//! State shared by all parts of one simulation: the origin's files, lasting faults, and violations.

use crate::{
    content::{Content, is_root},
    dice::mix,
    verdict::Summary,
};
use forebay_types::BlockIndex;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;

/// State shared by all parts of one simulation. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct World {
    state: Arc<Mutex<State>>,
}

/// The state of the world.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) files: Vec<OriginFileState>,
    /// Sizes of all versions there ever were.
    pub(crate) sizes: BTreeMap<Content, u64>,
    /// Until when copies may be served that could not be checked, because the origin failed or was slow before.
    pub(crate) unchecked_until: Option<Instant>,
    /// How many things have happened to the world.
    pub(crate) events: u64,
    /// Each open must show what the origin has at the time, unless the origin fails.
    pub(crate) checks_each_open: bool,
    pub(crate) origin_away: bool,
    /// One of so many requests to the origin fails; 0 for none.
    pub(crate) origin_fails_one_in: u64,
    /// Longest latency of the origin in milliseconds.
    pub(crate) origin_latency_ms: u64,
    pub(crate) disk_full: bool,
    /// One of so many operations of the disk fails; 0 for none.
    pub(crate) disk_fails_one_in: u64,
    /// Longest delay of the disk in milliseconds.
    pub(crate) disk_delay_ms: u64,
    pub(crate) is_over: bool,
    /// Whether the index may have missed a block's checksum: rot of that block is not to be noticed then.
    pub(crate) index_has_gaps: bool,
    /// Blocks that rotted on disk, and have perhaps not been noticed yet.
    pub(crate) rotten: BTreeSet<(Content, BlockIndex)>,
    pub(crate) summary: Summary,
    pub(crate) findings: Vec<String>,
}

/// A file at the origin.
#[derive(Clone, Copy)]
pub(crate) struct OriginFileState {
    pub(crate) content: Content,
    pub(crate) is_there: bool,
}

/// How long an origin that has failed may still show: a question takes its time, and an origin that did not answer is left
/// alone for a while.
const UNCHECKED_AFTER_FAILURE: Duration = Duration::from_secs(120);

/// Latency in milliseconds below which every question is answered in time.
const ANSWERS_IN_TIME_MS: u64 = 1000;

/// Findings kept of one run; the first ones matter.
const FINDINGS_MAX: usize = 20;

impl World {
    /// The state, locked: never across an await.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn find(&self, finding: String) {
        let mut state = self.state();
        if state.findings.len() < FINDINGS_MAX {
            state.findings.push(finding);
        }
    }

    /// Notes what a client met, for the digest.
    pub(crate) fn note(&self, client: u64, what: u64) {
        let mut state = self.state();
        state.summary.digest = mix(state.summary.digest ^ mix(client) ^ what.rotate_left(17));
    }
}

impl State {
    /// Gives `file` a new content of `size` bytes.
    pub(crate) fn replace(&mut self, file: u64, size: u64) {
        let Some(state) = usize::try_from(file).ok().and_then(|index| self.files.get_mut(index)) else { return };
        state.content.version += 1;
        self.sizes.insert(state.content, size);
    }

    /// The oldest state that an open that begins now may show: the events until now, and the content. `None` if it may show
    /// anything.
    pub(crate) fn freshest(&self, file: u64) -> Option<(u64, Content)> {
        let origin_works = !self.origin_fails() && self.unchecked_until.is_none_or(|until| Instant::now() > until);
        if !self.checks_each_open || !origin_works {
            return None;
        }
        let (content, _) = self.current(file)?;
        Some((self.events, content))
    }

    /// Notes that something is about to happen to the world.
    pub(crate) fn note_event(&mut self) {
        self.events += 1;
        // With a clock that stands still in between, what happens at one instant has no order.
        let settling = if self.origin_fails() { UNCHECKED_AFTER_FAILURE } else { Duration::ZERO };
        self.unchecked_until = self.unchecked_until.max(Some(Instant::now() + settling));
    }

    /// Whether the origin may fail to answer a question in time.
    fn origin_fails(&self) -> bool {
        self.origin_away || self.origin_fails_one_in > 0 || self.origin_latency_ms > ANSWERS_IN_TIME_MS
    }

    /// A file that is there now, with its size.
    pub(crate) fn current(&self, file: u64) -> Option<(Content, u64)> {
        let state = self.files.get(usize::try_from(file).ok()?).filter(|state| state.is_there)?;
        Some((state.content, *self.sizes.get(&state.content)?))
    }
}

pub(crate) fn path_of(file: u64) -> String {
    let suffix = if is_root(file) { ".root" } else { "" };
    format!("/sim/dir{}/file{file}{suffix}", file % 3)
}

pub(crate) fn file_at(path: &str) -> Option<u64> {
    let (_, name) = path.rsplit_once("/file")?;
    let number = name.strip_suffix(".root").unwrap_or(name);
    number.parse().ok().filter(|file| path_of(*file) == path)
}
