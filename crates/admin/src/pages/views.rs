//! Sources of pages besides the status of the server.

use super::sessions::Sessions;
use crate::recorder::Recorder;
use forebay_cache::Budget;
use forebay_front::RefusalLog;
use forebay_telemetry::Activity;
use std::{path::PathBuf, sync::Arc};
use tokio::sync::Semaphore;

/// Event streams served at once: each holds one of the port's connections.
pub(super) const EVENT_STREAMS_MAX: usize = 8;

/// The sources of the status page. Cheap to clone; clones share sessions.
#[derive(Clone)]
pub struct Views {
    pub(crate) activity: Activity,
    pub(crate) recorder: Recorder,
    /// Host names of the admin port.
    pub(super) hosts: Arc<[String]>,
    /// Limit of the bytes on disk, and the marks of purges.
    pub(super) budget: Budget,
    /// The text of the configuration file.
    pub(super) configuration: Arc<str>,
    pub(super) sessions: Arc<Sessions>,
    pub(super) streams: Arc<Semaphore>,
    /// A report on jobs.
    pub(super) job_efficiency: Option<PathBuf>,
    pub(super) refusal_log: RefusalLog,
}

impl Views {
    /// The history that pages show.
    #[must_use]
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Pages of a server with this activity and history; `hosts` are the names under which browsers reach it.
    #[must_use]
    pub fn new(activity: Activity, recorder: Recorder, hosts: &[String], budget: Budget, configuration: &str) -> Self {
        Self {
            activity,
            recorder,
            hosts: hosts.into(),
            budget,
            configuration: configuration.into(),
            sessions: Arc::default(),
            streams: Arc::new(Semaphore::new(EVENT_STREAMS_MAX)),
            job_efficiency: None,
            refusal_log: RefusalLog::default(),
        }
    }

    /// These pages, whose refusals are logged with those of the API.
    pub(crate) fn with_refusal_log(self, refusal_log: RefusalLog) -> Self {
        Self { refusal_log, ..self }
    }

    /// These pages with a report on the efficiency of jobs, which is read for each visit.
    #[must_use]
    pub fn with_job_efficiency(self, path: Option<PathBuf>) -> Self {
        Self { job_efficiency: path, ..self }
    }
}
