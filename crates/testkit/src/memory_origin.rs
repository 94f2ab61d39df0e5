//! An origin in memory: serves test content, counts requests, and fails as scripted.

use crate::bytes_at;
use bytes::Bytes;
use forebay_origin::{
    Checksum, Chunk, Chunks, FileIdentity, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath,
    RefusalKind,
};
use forebay_proto::page::{crc32c, pages};
use forebay_types::{ByteRange, DirEntry, Endpoint, FileKind, FileStat, Validator};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

/// An origin with one file under every path, filled with [`crate::byte_at`].
#[derive(Clone)]
pub struct MemoryOrigin {
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    script: Mutex<Script>,
    asked: Mutex<Vec<ByteRange>>,
    link: Mutex<Link>,
    opens: AtomicU64,
    opened: Mutex<Weak<MemoryFile>>,
    stats: AtomicU64,
    /// Bytes of each range that are sent before the stream waits.
    gate: watch::Sender<u64>,
    opens_gate: watch::Sender<bool>,
    checksums: AtomicU64,
    checksums_gate: watch::Sender<bool>,
}

/// The behaviour of the origin.
#[derive(Clone, Debug, Default)]
pub struct Script {
    pub size: u64,
    pub mtime: i64,
    /// Which content it has: every byte of [`crate::byte_at`] is changed by it. A file that is open keeps the content that it had
    /// when it was opened.
    pub content: u8,
    /// Opens return this change time, as those of a server that gives the file that others have open under the name.
    pub opened_mtime: Option<i64>,
    /// Opens return the file that a client has open, whatever has taken its place, as an xrootd does.
    pub opens_shared: bool,
    pub stat_error: Option<OriginError>,
    pub open_error: Option<OriginError>,
    /// Reads fail with this once they come to the offset.
    pub read_error: Option<(u64, OriginError)>,
    /// Reads end without a word once they come to the offset.
    pub ends_at: Option<u64>,
    pub panics: bool,
    pub chunk_len: usize,
    /// The adler32 of its file; no checksum at all without.
    pub adler32: Option<String>,
    /// The answer to the next question for a checksum, before those by `adler32`.
    pub stale_adler32: Option<String>,
    /// Whether its bytes were compared with page checksums.
    pub verifies_pages: bool,
    /// Time before the first byte of each answer to a read.
    pub latency: Duration,
    /// Time before the answer to an open.
    pub open_latency: Duration,
    /// Rate of all answers together, in bytes per second.
    pub bytes_per_s: Option<u64>,
    /// Bytes that take the place of its content, each from an offset on.
    pub records: Arc<[(u64, Vec<u8>)]>,
}

/// The way that all answers take.
#[derive(Default)]
struct Link {
    /// When everything that is on it has arrived.
    free_at: Option<Instant>,
    /// Bytes asked for that have not been sent, now and at most.
    outstanding: u64,
    outstanding_max: u64,
}

struct MemoryFile {
    state: Arc<State>,
    identity: FileIdentity,
    content: u8,
}

impl MemoryOrigin {
    /// An origin whose file has `size` bytes.
    pub fn new(size: u64) -> Self {
        let script =
            Script { size, mtime: 1_700_000_000, chunk_len: 10_000, verifies_pages: true, ..Script::default() };
        let answered = || watch::Sender::new(true);
        let state = State {
            script: Mutex::new(script),
            gate: watch::Sender::new(u64::MAX),
            opens_gate: answered(),
            checksums_gate: answered(),
            ..State::default()
        };
        Self { state: Arc::new(state) }
    }

    pub fn endpoint() -> Endpoint {
        Endpoint::new("memory", 1094)
    }

    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.state.script.lock());
    }

    /// From now on each range stops after `bytes` until more are let through.
    pub fn let_through(&self, bytes: u64) {
        self.state.gate.send_replace(bytes);
    }

    /// The origin's words for a file that it has not.
    pub fn no_such_file() -> OriginError {
        let (kind, text) = (RefusalKind::NotFound, "no such file".to_owned());
        OriginError::Refused { endpoint: Self::endpoint(), kind, text }
    }

    /// The `len` bytes from `offset` on of the file with this content.
    pub fn bytes_of(content: u8, offset: u64, len: usize) -> Vec<u8> {
        bytes_at(offset, len).into_iter().map(|byte| byte ^ content).collect()
    }

    /// From now on opens and stats are answered, or wait.
    pub fn answer_opens(&self, answered: bool) {
        self.state.opens_gate.send_replace(answered);
    }

    /// From now on questions for checksums are answered, or wait.
    pub fn answer_checksums(&self, answered: bool) {
        self.state.checksums_gate.send_replace(answered);
    }

    /// How often it was asked for a checksum.
    pub fn checksums(&self) -> u64 {
        self.state.checksums.load(SeqCst)
    }

    /// The ranges it was asked for so far, in order.
    pub fn asked(&self) -> Vec<ByteRange> {
        self.state.asked.lock().clone()
    }

    /// Most bytes it was asked for and had not sent yet at any time.
    pub fn outstanding_max(&self) -> u64 {
        self.state.link.lock().outstanding_max
    }

    /// How often it was asked what is known of its file.
    pub fn stats(&self) -> u64 {
        self.state.stats.load(SeqCst)
    }

    /// How often its file was opened.
    pub fn opens(&self) -> u64 {
        self.state.opens.load(SeqCst)
    }
}

impl Origin for MemoryOrigin {
    fn label(&self) -> &str {
        "memory:1094"
    }

    fn open<'a>(&'a self, _path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async {
            self.state.opens.fetch_add(1, SeqCst);
            tokio::task::yield_now().await;
            wait_for(&self.state.opens_gate).await;
            let script = self.state.script.lock().clone();
            if !script.open_latency.is_zero() {
                tokio::time::sleep(script.open_latency).await;
            }
            if let Some(error) = script.open_error {
                return Err(error);
            }
            let mut opened = self.state.opened.lock();
            if let Some(file) = opened.upgrade().filter(|_| script.opens_shared) {
                return Ok(file as Arc<dyn OriginFile>);
            }
            let mtime = script.opened_mtime.unwrap_or(script.mtime);
            let validator = Validator::of_mtime(mtime);
            let identity = FileIdentity { size: script.size, validator, origin: Self::endpoint().into() };
            let file = Arc::new(MemoryFile { state: Arc::clone(&self.state), identity, content: script.content });
            *opened = Arc::downgrade(&file);
            Ok(file as Arc<dyn OriginFile>)
        })
    }

    fn stat<'a>(&'a self, _path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        self.state.stats.fetch_add(1, SeqCst);
        Box::pin(async {
            tokio::task::yield_now().await;
            wait_for(&self.state.opens_gate).await;
            let Script { size, mtime, stat_error, .. } = self.state.script.lock().clone();
            let (kind, readable, executable) = (FileKind::File, true, false);
            let stat = FileStat {
                id: 1,
                kind,
                size,
                mtime,
                readable,
                executable,
                offline: false,
                cached: false,
                access: None,
                validator: None,
            };
            stat_error.map_or(Ok(stat), Err)
        })
    }

    fn list<'a>(&'a self, _path: &'a OriginPath, _detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn checksum<'a>(&'a self, _path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(async move {
            self.state.checksums.fetch_add(1, SeqCst);
            wait_for(&self.state.checksums_gate).await;
            let known = {
                let mut script = self.state.script.lock();
                script.stale_adler32.take().or_else(|| script.adler32.clone())
            };
            let known = known.filter(|_| algorithm.is_none_or(|name| name == "adler32"));
            let checksum = known.map(|value| Checksum { algorithm: "adler32".to_owned(), value });
            let (endpoint, text) = (Self::endpoint(), "no such checksum".to_owned());
            checksum.ok_or(OriginError::Refused { endpoint, kind: RefusalKind::Unsupported, text })
        })
    }
}

impl OriginFile for MemoryFile {
    fn identity(&self) -> FileIdentity {
        self.identity.clone()
    }

    fn verifies_pages(&self) -> bool {
        self.state.script.lock().verifies_pages
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        self.state.asked.lock().extend(ranges);
        assert!(!self.state.script.lock().panics, "scripted to panic");
        ranges.iter().map(|range| self.send(*range)).collect()
    }
}

impl MemoryFile {
    fn send(&self, range: ByteRange) -> Chunks {
        let (sender, chunks) = Chunks::channel();
        let (state, content) = (Arc::clone(&self.state), self.content);
        let mut outstanding = Outstanding::new(&state, range.len());
        tokio::spawn(async move {
            let latency = state.script.lock().latency;
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let mut gate = state.gate.subscribe();
            let mut offset = range.start();
            while offset < range.end() {
                let Script { chunk_len, read_error, ends_at, verifies_pages, records, .. } =
                    state.script.lock().clone();
                let sent = offset - range.start();
                let Ok(open) = gate.wait_for(|open| *open > sent).await.map(|open| *open) else { return };
                if let Some((_, error)) = read_error.filter(|(fails_at, _)| offset >= *fails_at) {
                    let _ = sender.send(Err(error));
                    return;
                }
                let end = ends_at.unwrap_or(u64::MAX).min(range.end());
                if offset >= end {
                    return;
                }
                let left = (end - offset).min(open - sent);
                let len = usize::try_from(left).unwrap_or(usize::MAX).min(chunk_len);
                if let Some(arrival) = state.arrival(len as u64) {
                    tokio::time::sleep_until(arrival).await;
                }
                let mut bytes = MemoryOrigin::bytes_of(content, offset, len);
                records.iter().for_each(|(place, record)| overlay(&mut bytes, offset, *place, record));
                let _ = sender.send(Ok(chunk_of(bytes, offset, verifies_pages)));
                outstanding.sent(len as u64);
                offset += len as u64;
                tokio::task::yield_now().await;
            }
        });
        chunks
    }
}

/// Puts the part of a record at `place` that lies in them into the bytes from `offset` on.
fn overlay(bytes: &mut [u8], offset: u64, place: u64, record: &[u8]) {
    let (range, of_record) = (ByteRange::at(offset, bytes.len() as u64), ByteRange::at(place, record.len() as u64));
    let Some(common) = range.intersection(of_record) else { return };
    let part = |of: ByteRange| {
        let at = |offset: u64| usize::try_from(offset - of.start()).unwrap_or_default();
        at(common.start())..at(common.end())
    };
    if let (Some(to), Some(from)) = (bytes.get_mut(part(range)), record.get(part(of_record))) {
        to.copy_from_slice(from);
    }
}

/// The bytes from `offset` on, with the checksums of their pages if they are `verified`.
fn chunk_of(bytes: Vec<u8>, offset: u64, verified: bool) -> Chunk {
    let mut page_sums = Vec::new();
    if verified {
        let mut rest = bytes.as_slice();
        for page in pages(ByteRange::at(offset, bytes.len() as u64)) {
            let (page, behind) = rest.split_at(usize::try_from(page.len()).unwrap_or_default());
            page_sums.push(crc32c(page));
            rest = behind;
        }
    }
    Chunk { bytes: Bytes::from(bytes), page_sums }
}

impl State {
    /// When `len` bytes have arrived that are sent now, over a link that carries so much.
    fn arrival(&self, len: u64) -> Option<Instant> {
        let bytes_per_s = self.script.lock().bytes_per_s?;
        let mut link = self.link.lock();
        let now = Instant::now();
        let start = link.free_at.map_or(now, |free_at| free_at.max(now));
        let arrival = start + Duration::from_nanos(len.saturating_mul(1_000_000_000) / bytes_per_s);
        link.free_at = Some(arrival);
        Some(arrival)
    }
}

/// Bytes of one answer that have not been sent.
struct Outstanding {
    state: Arc<State>,
    bytes: u64,
}

impl Outstanding {
    fn new(state: &Arc<State>, bytes: u64) -> Self {
        let mut link = state.link.lock();
        link.outstanding += bytes;
        link.outstanding_max = link.outstanding_max.max(link.outstanding);
        drop(link);
        Self { state: Arc::clone(state), bytes }
    }

    fn sent(&mut self, bytes: u64) {
        self.bytes -= bytes;
        self.state.link.lock().outstanding -= bytes;
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.state.link.lock().outstanding -= self.bytes;
    }
}

async fn wait_for(gate: &watch::Sender<bool>) {
    // The sender lives as long as its origin: waiting cannot fail.
    let _ = gate.subscribe().wait_for(|answered| *answered).await;
}
