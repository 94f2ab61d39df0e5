//! Metrics, access log, trace of reads and log set-up.
//!
//! Nothing here is global: one [`Metrics`] is created at startup and passed to every component. Labels are enums with a
//! fixed set of values, so an update on the hot path is one relaxed atomic addition.

mod access_log;
mod activity;
mod declare;
mod exposition;
mod failing_servers;
mod file_events;
mod file_use;
mod groups;
mod histogram;
mod history;
mod label;
mod logging;
mod metrics;
mod open_handle;
mod operations;
mod origins;
mod readiness;
mod streams;
mod trace;

pub use access_log::{ACCESS_TARGET, AccessLog};
pub use activity::{Activity, ActivityOptions, OpenFile, names::site_of};
pub use failing_servers::{FailingServer, Fault};
pub use file_events::{
    AdviceEvent, Client, ClientProtocol, CloseEvent, DirectEvent, FailedEvent, FileEvents, LoginEvent, Observers,
    OpenEvent, OpenPurpose, ReadAnswer, ReadEvents, RedirectedEvent, RefusedEvent,
};
pub use file_use::{FileBytes, FileUse};
pub use groups::{Group, NamedSums, Sum};
pub use history::{
    HISTORY_LEN_MAX, History, HistoryError, Point, Range, SERIES_COUNT, Series, Values as HistoryValues,
};
pub use label::{
    BlockCheck, CheckResult, ChecksumComparison, ClusterAnswer, ColumnEvent, ConnectionLimit, Decided, DiskOperation,
    DropReason, FileResult, IndexPhase, NotKept, NotReadAhead, PlacedOn, ReadAheadEvent, ReadAheadSource, RecordOutput,
    RequestKind, SentTo, StructureOutcome, TlsResult,
};
pub use logging::{LogControl, LogError, LogFormat, check_log_filter, init_logging};
pub use metrics::{CacheLevel, CertificateEnd, ConnectionGuard, DiskGauges, Metrics};
pub use open_handle::{HandleAccount, OpenHandle};
pub use operations::{Operations, ReadKind, Spread};
pub use origins::{ORIGIN_LABEL_OTHER, ORIGIN_LABELS_MAX, OriginMetrics, OriginState};
pub use readiness::Readiness;
pub use streams::{StreamOptions, Streams};
pub use trace::{Sample, Trace, TraceOptions};
