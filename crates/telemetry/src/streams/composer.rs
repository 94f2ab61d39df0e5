//! Datagrams out of events, and the numbers of users and files in them.

use super::{
    Closed, Opened, StreamOptions,
    intervals::is_due,
    pauses::{Key, Pause, Pauses, joined},
    reads::Reads,
};
use crate::{FileUse, HandleAccount, file_events::Client};
use forebay_monitoring::{FileClose, FileRecords, GeneralEvents, OpenRecord, Sender, Transferred, map};
use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

/// Seconds after which the session of a client without open files is reported as ended. Its next open begins a new one.
const SESSION_IDLE_S: i64 = 600;

/// Program in the server's identity: the only value that all collectors know.
const PROGRAM: &str = "xrootd";

/// Composes datagrams. Performs no I/O and reads no clock: call [`Composer::handle_time`] now and then, and
/// [`Composer::poll_datagram`] after each call until it returns `None`.
pub(super) struct Composer {
    options: StreamOptions,
    sender: Sender,
    ready: VecDeque<Vec<u8>>,
    files: FileRecords,
    caches: GeneralEvents,
    /// Sequence numbers of maps, file records and events of the cache.
    sequences: [u8; 3],
    /// The last number of a user or file.
    last_id: u32,
    /// By number of the open.
    open: HashMap<u64, OpenFile>,
    pauses: Pauses,
    /// By number of the session.
    sessions: HashMap<u64, Session>,
    flushed: i64,
    progress: i64,
    /// `None` before the first identity.
    identity: Option<i64>,
}

struct OpenFile {
    id: u32,
    session: u64,
    account: Arc<HandleAccount>,
    reported: Transferred,
    /// Of clients whose opens of a file are one record.
    key: Option<Key>,
    /// Reads of the file in earlier opens of the record, and its use in them.
    earlier: Reads,
    used: Option<FileUse>,
}

impl OpenFile {
    fn reads(&self) -> Reads {
        self.earlier.with(Reads::of(&self.account))
    }
}

struct Session {
    id: u32,
    opens: usize,
    /// The last open or close.
    used: i64,
}

impl Composer {
    pub(super) fn new(options: StreamOptions, now: i64) -> Self {
        let len_max = options.datagram_bytes;
        let mut hasher = DefaultHasher::new();
        (&options.site, &options.instance, options.port, now, std::process::id()).hash(&mut hasher);
        Self {
            sender: Sender { start: seconds(now), id: hasher.finish() & 0xffff_ffff_ffff },
            options,
            ready: VecDeque::new(),
            files: FileRecords::new(len_max),
            caches: GeneralEvents::new(len_max),
            sequences: [0; 3],
            last_id: 0,
            open: HashMap::new(),
            pauses: Pauses::default(),
            sessions: HashMap::new(),
            flushed: now,
            progress: now,
            identity: None,
        }
    }

    /// Sends everything that is due.
    pub(super) fn handle_time(&mut self, now: i64) {
        let is_due = |last: i64, interval: std::time::Duration| is_due(last, interval.as_secs().cast_signed(), now);
        if self.identity.is_none_or(|last| is_due(last, self.options.identity)) {
            self.identity = Some(now);
            self.send_identity();
        }
        if is_due(self.progress, self.options.progress) {
            self.progress = now;
            self.report_progress(now);
        }
        while let Some(pause) = self.pauses.poll_ended(now) {
            self.end_pause(&pause, now);
        }
        if is_due(self.flushed, self.options.flush) {
            self.close_forgotten(now);
            self.end_idle_sessions(now);
            self.flush(now);
        }
    }

    pub(super) fn open(&mut self, opened: Opened, now: i64) {
        let (session, account) = (opened.client.session, opened.account);
        let key = Key::of(&opened.client, &opened.lfn);
        if let Some(pause) = key.as_ref().and_then(|key| self.pauses.end(key)) {
            let Pause { id, reads: earlier, reported, used, .. } = pause;
            self.open.insert(opened.open, OpenFile { id, session, account, reported, key, earlier, used });
            return;
        }
        let user = self.user(&opened.client, now);
        let id = self.next_id();
        self.make_room(opened.lfn.len(), now);
        self.files.open(&OpenRecord { file: id, user, size: opened.size, lfn: &opened.lfn });
        let (reported, earlier) = (Transferred::default(), Reads::default());
        self.open.insert(opened.open, OpenFile { id, session, account, reported, key, earlier, used: None });
    }

    pub(super) fn close(&mut self, closed: Closed, now: i64) {
        // The event of an open may have been dropped.
        if let Some(mut file) = self.open.remove(&closed.open) {
            if let Some(key) = file.key.take() {
                let (id, reads, reported, size) = (file.id, file.reads(), file.reported, closed.size);
                let used = joined(file.used, closed.last);
                if let Some(ended) = self.pauses.begin(Pause { id, key, size, reads, reported, at: now, used }) {
                    self.end_pause(&ended, now);
                }
                return;
            }
            self.end_file(file.id, file.session, &file.reads(), now);
        }
        if let Some(used) = &closed.last {
            self.add_use(&cache_event(&closed.lfn, closed.size, used, now), now);
        }
    }

    /// Sends all that is known, as the last thing that is sent.
    pub(super) fn finish(&mut self, now: i64) {
        for pause in self.pauses.take_all() {
            self.end_pause(&pause, now);
        }
        self.flush(now);
    }

    /// Ends all datagrams that have begun.
    fn flush(&mut self, now: i64) {
        self.send_files(now);
        self.send_caches(now);
        self.flushed = now;
    }

    /// The next datagram to send.
    pub(super) fn poll_datagram(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    /// The number of a client, which is announced by a map at first.
    fn user(&mut self, client: &Client, now: i64) -> u32 {
        if let Some(session) = self.sessions.get_mut(&client.session) {
            session.opens += 1;
            session.used = now;
            return session.id;
        }
        let id = self.next_id();
        self.sessions.insert(client.session, Session { id, opens: 1, used: now });
        let text = format!("{}\n{}", self.login(client), facts(client));
        self.send_map(b'u', id, &text);
        id
    }

    /// The client as the first line of a map.
    fn login(&self, client: &Client) -> String {
        let name: String = client.user.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
        let name = if name.is_empty() { "unknown" } else { &name };
        format!("{}/{name}.{}:{}@{}", client.protocol.as_str(), client.pid, self.sender.id, plain(&client.host))
    }

    fn send_identity(&mut self) {
        let StreamOptions { site, instance, port, .. } = &self.options;
        // Some collectors take the fields by position.
        let text = format!(
            "=/forebay.{}:{}@localhost\n&site={}&port={port}&inst={}&pgm={PROGRAM}&ver={}",
            std::process::id(),
            self.sender.id,
            plain(site),
            plain(instance),
            env!("CARGO_PKG_VERSION"),
        );
        self.send_map(b'=', 0, &text);
    }

    fn send_map(&mut self, code: u8, id: u32, text: &str) {
        let sequence = self.next_sequence(0);
        self.ready.push_back(map(self.sender, code, sequence, id, text));
    }

    /// Keeps collectors from forgetting files that are open for long.
    fn report_progress(&mut self, now: i64) {
        let mut open = std::mem::take(&mut self.open);
        for file in open.values_mut() {
            let bytes = file.reads().transferred();
            if bytes != file.reported {
                file.reported = bytes;
                self.make_room(0, now);
                self.files.transfer(file.id, bytes);
            }
        }
        self.open = open;
    }

    /// Closes files whose handle is gone: the event of their close was dropped while the queue was full.
    fn close_forgotten(&mut self, now: i64) {
        // A close that is still in the queue finds nothing left to close.
        let is_gone = |file: &OpenFile| Arc::strong_count(&file.account) == 1;
        let gone: Vec<_> = self.open.extract_if(|_, file| is_gone(file)).map(|(_, file)| file).collect();
        for file in gone {
            self.end_file(file.id, file.session, &file.reads(), now);
        }
    }

    fn end_file(&mut self, id: u32, session: u64, reads: &Reads, now: i64) {
        self.make_room(0, now);
        self.files.close(&reads.close_record(id));
        if let Some(session) = self.sessions.get_mut(&session) {
            session.opens = session.opens.saturating_sub(1);
            session.used = now;
        }
    }

    fn end_pause(&mut self, pause: &Pause, now: i64) {
        self.end_file(pause.id, pause.key.session(), &pause.reads, now);
        if let Some(used) = &pause.used {
            self.add_use(&cache_event(pause.key.lfn(), pause.size, used, pause.at), now);
        }
    }

    fn add_use(&mut self, event: &FileClose<'_>, now: i64) {
        if !self.caches.close(event) {
            self.send_caches(now);
            self.caches.close(event);
        }
    }

    fn end_idle_sessions(&mut self, now: i64) {
        let is_idle = |session: &Session| session.opens == 0 && is_due(session.used, SESSION_IDLE_S, now);
        let ended: Vec<_> =
            self.sessions.extract_if(|_, session| is_idle(session)).map(|(_, ended)| ended.id).collect();
        for id in ended {
            self.make_room(0, now);
            self.files.disconnect(id);
        }
    }

    /// Sends the datagram if the next record does not fit; `lfn_len` as for [`FileRecords::is_full`].
    fn make_room(&mut self, lfn_len: usize, now: i64) {
        if self.files.is_full(lfn_len) {
            self.send_files(now);
        }
    }

    fn send_files(&mut self, now: i64) {
        if !self.files.is_empty() {
            let sequence = self.next_sequence(1);
            self.ready.push_back(self.files.take(self.sender, sequence, seconds(self.flushed), seconds(now)));
        }
    }

    fn send_caches(&mut self, now: i64) {
        if !self.caches.is_empty() {
            let sequence = self.next_sequence(2);
            self.ready.push_back(self.caches.take(self.sender, sequence, seconds(self.flushed), seconds(now)));
        }
    }

    const fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    fn next_sequence(&mut self, stream: usize) -> u8 {
        let Some(next) = self.sequences.get_mut(stream) else { return 0 };
        let sequence = *next;
        *next = next.wrapping_add(1);
        sequence
    }
}

/// The client's properties in a map.
fn facts(client: &Client) -> String {
    let family =
        if client.peer.is_some_and(|peer| peer.is_ipv6() && peer.ip().to_canonical().is_ipv6()) { 6 } else { 4 };
    let organization = plain(client.organization.as_deref().unwrap_or_default());
    let (user, host, program) = (plain(&client.user), plain(&client.host), plain(&client.program));
    format!("&n={user}&h={host}&o={organization}&x={program}&y=&I={family}")
}

/// A text that cannot be taken for more than one field.
fn plain(text: &str) -> String {
    text.chars().map(|character| if character == '&' || character.is_control() { '_' } else { character }).collect()
}

/// The event of a file that no client reads any more.
fn cache_event<'a>(lfn: &'a str, size: u64, used: &FileUse, detached: i64) -> FileClose<'a> {
    FileClose {
        lfn,
        size,
        block_size: used.block_size,
        blocks: used.blocks,
        blocks_done: used.blocks_done,
        accesses: used.accesses,
        attached: used.attached,
        detached,
        remotes: used.servers.iter().map(ToString::to_string).collect(),
        hit: used.bytes.hit,
        missed: used.bytes.missed,
        bypassed: used.bytes.bypassed,
        written: used.bytes.written,
        prefetched: used.bytes.prefetched,
        damaged: used.bytes.damaged_blocks,
    }
}

/// A time in a field of 32 bits.
fn seconds(time: i64) -> u32 {
    u32::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests;
