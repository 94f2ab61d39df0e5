//! Popularity and sizing: access records, and what a cache of another size or policy would have made of them.
//!
//! Nothing here opens a file, reads a clock or starts a thread: lines and records go in, values come out.
//!
//! - An [`Import`] reads lines of JSON and CSV in the dialects of collectors, and the accesses of cinfos, into [`Accesses`].
//! - [`Replays`] pass [`Accesses`] through the ledger, policy, marks, quotas and rules of the cache; an [`Outcome`] holds its
//!   sums by period, of which [`Ratios`] are computed with their uncertainty.
//! - A [`Join`] finds the input of jobs among accesses, for their [`Efficiency`] by its source and a [`JobReport`] of it.
//! - A [`ReuseCurve`] follows the accesses of a running cache, and shows what LRU caches of all sizes would have made of them.

mod access;
mod anonymize;
mod block_replay;
mod chance;
mod columns;
mod csv;
mod efficiency;
mod generate;
mod import;
mod job_report;
mod jobs;
mod outcome;
mod recency;
mod replay;
mod requests;
mod reuse;
mod simulated_cache;
mod summary;
mod tiers;
mod time;
mod top;

pub use access::{ACCESSES_MAX, Access, Accesses, FILES_MAX, File, Full, USERS_MAX};
pub use anonymize::{Anonymizer, AnonymousAccess};
pub use csv::CSV_COLUMNS_MAX;
pub use efficiency::{Efficiency, JobSums, SITES_MAX};
pub use generate::{GENERATE_DAYS_MAX, GENERATE_SCALE_MAX, GenerateOptions, Generated, Profile, generate};
pub use import::{Import, LINE_LEN_MAX, Problem};
pub use job_report::{JobReport, JobRow};
pub use jobs::{DataSource, Input, JOBS_MAX, JOIN_SLACK_MS, Job, JobImport, Join};
pub use outcome::{Outcome, PERIODS, Period, Ratio, Ratios, Window, measured};
pub use replay::{Admission, Cell, Replays, Scenario, Unit};
pub use requests::{RANGES_MAX, REQUESTS_MAX, Requests};
pub use reuse::{CurvePoint, Group, Interval, REUSE_DAYS, REUSE_FILES_MAX, Reuse, ReuseCurve, Use, WorkingSet};
pub use summary::Summary;
pub use tiers::{TierSums, Tiers};
pub use time::{parse_time_ms, time_ms};
