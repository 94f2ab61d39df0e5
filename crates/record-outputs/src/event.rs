//! Events on their way to the thread that makes records of them.

use forebay_records::{CacheUse, Client, DataNames, Decision, Event as Kind, Reads, Record, Server, Times, address_of};
use forebay_telemetry::{
    Client as EventClient, CloseEvent, FailedEvent, FileUse, HandleAccount, RedirectedEvent, RefusedEvent, site_of,
};
use forebay_types::{DataName, Outcome};
use std::{path::Path, time::Duration};

/// An event of a file, with copies of its facts.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    /// The end, in milliseconds of the Unix epoch.
    pub(crate) at_ms: i64,
    /// Time since the begin.
    pub(crate) duration: Duration,
    pub(crate) client: EventClient,
    pub(crate) lfn: String,
    pub(crate) size: Option<u64>,
    pub(crate) origin: Option<String>,
    pub(crate) target: Option<String>,
    /// A kind of failure, if known.
    pub(crate) status: Option<&'static str>,
    pub(crate) reason: Option<String>,
    pub(crate) closed: Option<Closed>,
}

/// The facts of a close.
#[derive(Debug)]
pub(crate) struct Closed {
    /// The number of the open.
    pub(crate) open: u64,
    pub(crate) decision: Decision,
    pub(crate) reads: Reads,
    pub(crate) cache: Option<CacheUse>,
}

impl Event {
    fn new(kind: Kind, at_ms: i64, client: &EventClient, lfn: &str) -> Self {
        Self {
            kind,
            at_ms,
            duration: Duration::ZERO,
            client: client.clone(),
            lfn: lfn.to_owned(),
            size: None,
            origin: None,
            target: None,
            status: None,
            reason: None,
            closed: None,
        }
    }

    pub(crate) fn closed(event: &CloseEvent<'_>, at_ms: i64) -> Self {
        let decision = match event.file {
            None => Decision::Local,
            Some(file) if file.accesses == 0 => Decision::Bypass,
            Some(_) => Decision::Cache,
        };
        let used = if event.opens == 1 { event.file.map(cache_use) } else { None };
        let closed = Closed { open: event.open, decision, reads: reads_of(event.account), cache: used };
        Self {
            duration: event.duration,
            size: Some(event.size),
            origin: event.origin.map(ToString::to_string),
            closed: Some(closed),
            ..Self::new(Kind::Close, at_ms, event.client, event.lfn.as_str())
        }
    }

    pub(crate) fn direct(client: &EventClient, lfn: &str, size: u64, path: &Path, at_ms: i64) -> Self {
        let target = Some(path.to_string_lossy().into_owned());
        Self { size: Some(size), target, ..Self::new(Kind::Direct, at_ms, client, lfn) }
    }

    pub(crate) fn redirected(event: &RedirectedEvent<'_>, at_ms: i64) -> Self {
        Self {
            size: event.size,
            origin: Some(event.origin.to_string()),
            target: Some(event.to.to_string()),
            ..Self::new(Kind::Redirect, at_ms, event.client, event.lfn.as_str())
        }
    }

    pub(crate) fn refused(event: &RefusedEvent<'_>, at_ms: i64) -> Self {
        let (status, reason) = (Some(event.kind), Some(event.reason.to_owned()));
        Self { status, reason, ..Self::new(Kind::Refused, at_ms, event.client, event.lfn.as_str()) }
    }

    pub(crate) fn failed(event: &FailedEvent<'_>, at_ms: i64) -> Self {
        let (status, reason) = (Some(event.kind), Some(event.reason.to_owned()));
        let duration = event.duration.unwrap_or_default();
        Self { status, reason, duration, ..Self::new(Kind::Failed, at_ms, event.client, event.lfn.as_str()) }
    }

    /// Appends its record to `out`, without a line break at the end.
    pub(crate) fn write(&self, id: &str, server: &Server, out: &mut Vec<u8>) {
        let data = DataName::of(&self.lfn);
        let names = DataNames::new(data.dataset.into_owned(), data.tier.to_owned());
        let domain = site_of(&self.client.host);
        let address = self.client.peer.map(|peer| peer.ip().to_canonical()).or_else(|| address_of(&self.client.host));
        let took = i64::try_from(self.duration.as_millis()).unwrap_or(i64::MAX);
        let record = Record {
            id,
            event: self.kind,
            server,
            times: Times { start: self.at_ms.saturating_sub(took), end: self.at_ms },
            client: Client {
                user: &self.client.user,
                host: &self.client.host,
                domain: &domain,
                address,
                organization: self.client.organization.as_deref(),
                program: &self.client.program,
                protocol: self.client.protocol.as_str(),
            },
            lfn: &self.lfn,
            names: &names,
            size: self.size,
            origin: self.origin.as_deref(),
            target: self.target.as_deref(),
            status: self.status.unwrap_or("ok"),
            reason: self.reason.as_deref(),
            reads: self.closed.as_ref().map(|closed| closed.reads),
            decision: self.closed.as_ref().map(|closed| closed.decision),
            cache: self.closed.as_ref().and_then(|closed| closed.cache.clone()),
        };
        record.write_json(out);
    }
}

/// The reads of an open. Bytes of vectors are those requested; clients got the rest of their bytes by single reads.
fn reads_of(account: &HandleAccount) -> Reads {
    let operations = account.operations();
    let [hit, missed, coalesced, bypassed] =
        [Outcome::Hit, Outcome::Missed, Outcome::Coalesced, Outcome::Bypassed].map(|outcome| account.bytes(outcome));
    let all = account.all_bytes();
    let vector_bytes = operations.vectors.sum.min(all);
    Reads {
        single_bytes: all - vector_bytes,
        vector_bytes,
        operations: operations.reads.count.saturating_add(operations.page_reads.count),
        vector_operations: operations.vectors.count,
        vector_elements: operations.elements.sum,
        hit,
        missed,
        coalesced,
        bypassed,
    }
}

fn cache_use(file: &FileUse) -> CacheUse {
    let idle = file.last_use.map(|last| file.attached.saturating_sub(last));
    CacheUse {
        fetched: file.bytes.fetched,
        written: file.bytes.written,
        prefetched: file.bytes.prefetched,
        wasted: file.bytes.wasted,
        accesses: file.accesses,
        since_last_use_s: idle.map(|idle| u64::try_from(idle).unwrap_or(0)),
        block_size: file.block_size,
        blocks: file.blocks,
        blocks_done: file.blocks_done,
        remotes: file.servers.iter().map(ToString::to_string).collect(),
    }
}
