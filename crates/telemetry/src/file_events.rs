//! What happens to files and their clients, for all who follow it: access log and trace.
//!
//! The engine reports opens, hand-overs and closes, the fronts report logins, reads, refusals and failures. Both have the
//! [`Observers`] of the process. Events borrow their facts: a subscriber copies what it keeps.

use crate::{AccessLog, FileUse, HandleAccount, NotReadAhead, ReadAheadSource, ReadKind};
use forebay_types::{ByteRange, Endpoint, Lfn, OriginId, Outcome, Side};
use std::{
    fmt,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A client, as it is known to rules, logs and other subscribers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Client {
    /// A proven name, or the name that the client gave.
    pub user: String,
    /// Host name or address.
    pub host: String,
    /// The organisation that the client was proven to belong to.
    pub organization: Option<String>,
    /// Number of its session; 0 without one.
    pub session: u64,
    /// Address and port of its connection; `None` for the server's own operations.
    pub peer: Option<SocketAddr>,
    /// The client's process number, as it says.
    pub pid: u32,
    /// The client's program, as it says.
    pub program: String,
    pub protocol: ClientProtocol,
}

forebay_types::named_enum! {
    /// The protocol of a client's connection, as the accounting of grids names it.
    #[derive(Default)]
    pub enum ClientProtocol {
        /// `root://`, also over TLS.
        #[default]
        Root = "xroot",
        Http = "http",
        /// HTTP within TLS, as for `davs://`.
        Https = "https",
        Dcap = "dcap",
    }
}

impl ClientProtocol {
    pub(crate) const fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// A client has logged in.
#[derive(Clone, Copy, Debug)]
pub struct LoginEvent<'a> {
    pub at: Instant,
    pub client: &'a Client,
}

/// A file was opened and is served.
#[derive(Clone, Copy, Debug)]
pub struct OpenEvent<'a> {
    /// Number of the open, counted from 1 since the start of the server.
    pub open: u64,
    pub at: Instant,
    pub client: &'a Arc<Client>,
    /// The path, as the client has asked for it.
    pub lfn: &'a Lfn,
    /// `None` for a local export.
    pub origin: Option<&'a OriginId>,
    pub size: u64,
    pub purpose: OpenPurpose,
    /// Counts what the client reads from now on.
    pub account: &'a Arc<HandleAccount>,
}

/// The reason why a file is open.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OpenPurpose {
    /// A client reads it.
    Read,
    /// The cache fetches it to its end, because a client or an operator wants it here. No client reads through this open.
    Complete,
    /// A front looks whether a client that has the file open may go on reading it, through its other open.
    Check,
}

/// A client was sent to a file of the cache, which it reads by itself: nothing more is reported of these reads.
#[derive(Clone, Copy, Debug)]
pub struct DirectEvent<'a> {
    /// The open that the client leaves for the file, in the middle of its reads; `None` if an open was answered so.
    pub open: Option<u64>,
    pub client: &'a Client,
    pub lfn: &'a Lfn,
    /// The size of the file.
    pub size: u64,
    /// The file.
    pub path: &'a Path,
}

/// An open was redirected to another server, where the client opens the file.
#[derive(Clone, Copy, Debug)]
pub struct RedirectedEvent<'a> {
    pub client: &'a Client,
    pub lfn: &'a Lfn,
    /// The origin of the file.
    pub origin: &'a OriginId,
    /// The server that the client is sent to: the origin, or the filler of a manager.
    pub to: &'a Endpoint,
    /// `None` if it was not looked up.
    pub size: Option<u64>,
}

/// An open file was closed.
#[derive(Clone, Copy, Debug)]
pub struct CloseEvent<'a> {
    /// Number of the open.
    pub open: u64,
    pub at: Instant,
    pub client: &'a Client,
    pub lfn: &'a Lfn,
    /// `None` for a local export.
    pub origin: Option<&'a OriginId>,
    pub size: u64,
    pub purpose: OpenPurpose,
    /// The bytes that the client has got, by outcome, and its reads.
    pub account: &'a Arc<HandleAccount>,
    /// Time from open to close.
    pub duration: Duration,
    /// Clients that had the file open, this one included: 1 ends the file's access period.
    pub opens: u64,
    /// The file's use by all of its clients in this period; `None` for a local export.
    pub file: Option<&'a FileUse>,
}

/// An open was refused: by a rule, by a limit, or because the server is stopping.
#[derive(Clone, Copy, Debug)]
pub struct RefusedEvent<'a> {
    pub at: Instant,
    pub client: &'a Client,
    pub lfn: &'a Lfn,
    /// The kind of refusal, a label.
    pub kind: &'static str,
    /// The text that the client gets.
    pub reason: &'a str,
}

/// An open or a read failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedEvent<'a> {
    pub at: Instant,
    pub client: &'a Client,
    pub lfn: &'a Lfn,
    /// The open whose read failed; `None` if the open itself failed.
    pub open: Option<u64>,
    pub side: Side,
    /// The kind of failure, a label.
    pub kind: &'static str,
    /// The text that the client gets.
    pub reason: &'a str,
    /// Time from the request to the failure; `None` of reads.
    pub duration: Option<Duration>,
}

/// The times of a request that was answered, and where its bytes came from.
#[derive(Clone, Copy, Debug)]
pub struct ReadAnswer {
    pub received: Instant,
    /// When the last byte of the answer was handed on.
    pub done: Instant,
    /// [`Outcome::Hit`] if all bytes were there.
    pub outcome: Outcome,
}

/// A decision about read-ahead by the structure of a ROOT file.
#[derive(Clone, Copy, Debug)]
pub enum AdviceEvent<'a> {
    /// These ranges are fetched, unless they are here, because of reads of this file or of others.
    Given { at: Instant, source: ReadAheadSource, ranges: &'a [ByteRange] },
    /// Nothing is fetched until the reader reads on, for this reason.
    GivenUp { at: Instant, reason: NotReadAhead },
}

/// A subscriber to what happens to files. Its methods are called in the middle of requests: they do not block.
pub trait FileEvents: fmt::Debug + Send + Sync {
    /// A client has proven its identity, or was not asked to.
    fn login(&self, _event: &LoginEvent<'_>) {}

    /// Returns an observer of the reads if the subscriber wants those of this open. An open without one pays a look at an
    /// `Option` for each read.
    fn opened(&self, _event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        None
    }

    /// A client reads a file of the cache by itself from now on.
    fn direct(&self, _event: &DirectEvent<'_>) {}

    /// An open was redirected to another server.
    fn redirected(&self, _event: &RedirectedEvent<'_>) {}

    /// The last handle of an open is gone; follows each [`FileEvents::opened`].
    fn closed(&self, _event: &CloseEvent<'_>) {}

    /// All data of a file was removed from the cache.
    fn removed(&self, _lfn: &Lfn) {}

    /// An open was refused before the engine looked at the file.
    fn refused(&self, _event: &RefusedEvent<'_>) {}

    /// An open or a read of an open file failed.
    fn failed(&self, _event: &FailedEvent<'_>) {}
}

/// A subscriber to the reads of one open.
pub trait ReadEvents: Send + Sync {
    /// A read was answered. The range ends at the end of the file.
    fn read(&self, kind: ReadKind, range: ByteRange, answer: &ReadAnswer);

    /// A vector read was answered; `elements` are those of this file.
    fn read_vector(&self, elements: &[ByteRange], answer: &ReadAnswer);

    /// Something was decided about fetching ahead of the reader.
    fn advised(&self, _event: &AdviceEvent<'_>) {}

    /// The file was closed. The last event of the open.
    fn closed(&self, event: &CloseEvent<'_>);
}

/// All subscribers of a process. Cheap to clone; clones count sessions and opens together. By default, the access log alone.
#[derive(Clone, Debug)]
pub struct Observers {
    subscribers: Arc<[Arc<dyn FileEvents>]>,
    sessions: Arc<AtomicU64>,
    opens: Arc<AtomicU64>,
}

/// The subscribers to the reads of one open, if there are several.
struct Several(Vec<Box<dyn ReadEvents>>);

impl Observers {
    /// These subscribers and no others.
    pub fn new(subscribers: Vec<Arc<dyn FileEvents>>) -> Self {
        Self { subscribers: subscribers.into(), sessions: Arc::default(), opens: Arc::default() }
    }

    /// Adds a subscriber.
    pub fn with(self, subscriber: Arc<dyn FileEvents>) -> Self {
        let subscribers = self.subscribers.iter().cloned().chain([subscriber]).collect();
        Self { subscribers, ..self }
    }

    /// The number of a new session.
    pub fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The number of a new open.
    pub fn next_open(&self) -> u64 {
        self.opens.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Default for Observers {
    fn default() -> Self {
        Self::new(vec![Arc::new(AccessLog::default())])
    }
}

impl FileEvents for Observers {
    fn login(&self, event: &LoginEvent<'_>) {
        self.subscribers.iter().for_each(|subscriber| subscriber.login(event));
    }

    fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
        let mut readers = self.subscribers.iter().filter_map(|subscriber| subscriber.opened(event));
        let first = readers.next()?;
        let others: Vec<_> = readers.collect();
        if others.is_empty() {
            return Some(first);
        }
        Some(Box::new(Several(std::iter::once(first).chain(others).collect())))
    }

    fn direct(&self, event: &DirectEvent<'_>) {
        self.subscribers.iter().for_each(|subscriber| subscriber.direct(event));
    }

    fn redirected(&self, event: &RedirectedEvent<'_>) {
        self.subscribers.iter().for_each(|subscriber| subscriber.redirected(event));
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        self.subscribers.iter().for_each(|subscriber| subscriber.closed(event));
    }

    fn removed(&self, lfn: &Lfn) {
        self.subscribers.iter().for_each(|subscriber| subscriber.removed(lfn));
    }

    fn refused(&self, event: &RefusedEvent<'_>) {
        self.subscribers.iter().for_each(|subscriber| subscriber.refused(event));
    }

    fn failed(&self, event: &FailedEvent<'_>) {
        self.subscribers.iter().for_each(|subscriber| subscriber.failed(event));
    }
}

impl ReadEvents for Several {
    fn read(&self, kind: ReadKind, range: ByteRange, answer: &ReadAnswer) {
        self.0.iter().for_each(|reader| reader.read(kind, range, answer));
    }

    fn read_vector(&self, elements: &[ByteRange], answer: &ReadAnswer) {
        self.0.iter().for_each(|reader| reader.read_vector(elements, answer));
    }

    fn advised(&self, event: &AdviceEvent<'_>) {
        self.0.iter().for_each(|reader| reader.advised(event));
    }

    fn closed(&self, event: &CloseEvent<'_>) {
        self.0.iter().for_each(|reader| reader.closed(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metrics;
    use parking_lot::Mutex;

    /// Wants the reads of one path, and counts them.
    #[derive(Clone, Debug)]
    struct Follower(&'static str, Arc<Mutex<u64>>);

    impl FileEvents for Follower {
        fn opened(&self, event: &OpenEvent<'_>) -> Option<Box<dyn ReadEvents>> {
            if event.lfn.as_str() == self.0 { Some(Box::new(self.clone())) } else { None }
        }
    }

    impl ReadEvents for Follower {
        fn read(&self, _: ReadKind, range: ByteRange, _: &ReadAnswer) {
            *self.1.lock() += range.len();
        }

        fn read_vector(&self, elements: &[ByteRange], _: &ReadAnswer) {
            *self.1.lock() += elements.iter().map(|element| element.len()).sum::<u64>();
        }

        fn closed(&self, event: &CloseEvent<'_>) {
            *self.1.lock() += event.account.bytes(Outcome::Hit);
        }
    }

    #[test]
    fn each_subscriber_gets_the_reads_that_it_wants() {
        let followers = ["/a", "/a", "/b"].map(|path| Follower(path, Arc::default()));
        let observers = followers
            .iter()
            .fold(Observers::new(Vec::new()), |observers, follower| observers.with(Arc::new(follower.clone())));
        #[expect(clippy::disallowed_methods, reason = "some moment; nothing depends on which")]
        let at = Instant::now();
        let answer = ReadAnswer { received: at, done: at, outcome: Outcome::Hit };
        let (client, handle) = (Arc::new(Client::default()), Metrics::new().open_handle());
        handle.account(Outcome::Hit, 1000);
        let (size, purpose, account) = (9, OpenPurpose::Read, handle.shared());
        for path in ["/a", "/b", "/c"] {
            let (lfn, open) = (Lfn::parse(path).unwrap(), observers.next_open());
            let event = OpenEvent { open, at, client: &client, lfn: &lfn, origin: None, size, purpose, account };
            let Some(reads) = observers.opened(&event) else {
                assert_eq!(path, "/c", "a file that no subscriber wants to follow");
                continue;
            };
            reads.read(ReadKind::Read, ByteRange::at(0, open), &answer);
            reads.read_vector(&[ByteRange::at(0, 10), ByteRange::at(20, 30)], &answer);
            let duration = Duration::ZERO;
            let (client, lfn, origin, file, opens) = (&client, &lfn, None, None, 1);
            reads.closed(&CloseEvent { open, at, client, lfn, origin, size, purpose, account, duration, opens, file });
        }
        let counted = followers.map(|follower| *follower.1.lock());
        assert_eq!(counted, [1041, 1041, 1042]);
    }
}
