//! Status and metrics of a running server, for a report.

use super::{address::Address, connection::Connection};
use forebay_config::Settings;

/// Answers of a server; each can fail alone.
pub(crate) struct Snapshot {
    /// The status as JSON.
    pub(crate) status: anyhow::Result<String>,
    /// The metrics as OpenMetrics.
    pub(crate) metrics: anyhow::Result<String>,
}

/// Asks the server that runs with a configuration.
pub(crate) async fn take(settings: &Settings) -> anyhow::Result<Snapshot> {
    let server = Connection::new(Address::of(settings)?);
    let status = server.get("/api/v1/status").await.and_then(|status| Ok(serde_json::to_string_pretty(&status)?));
    Ok(Snapshot { status, metrics: server.text("/metrics").await })
}
