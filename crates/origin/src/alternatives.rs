//! Several origins with the same files, in different protocols.

use crate::{
    Checksum, Chunks, FileIdentity, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind,
};
use forebay_types::{ByteRange, DirEntry, FileStat, Validator, ValidatorMatch};
use parking_lot::Mutex;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};

/// Origins with the same files, asked in this order. Servers of one protocol are the business of its own client.
#[derive(Clone)]
pub struct Alternatives {
    members: Arc<[Member]>,
}

struct Member {
    origin: Arc<dyn Origin>,
    /// Until when it is asked last, because it did not answer.
    rests_until: Mutex<Option<Instant>>,
}

/// How long an origin that did not answer is asked last: opens must not wait for a dead one each time.
const REST_TIME: Duration = Duration::from_secs(30);

impl Alternatives {
    #[must_use]
    pub fn new(origins: Vec<Arc<dyn Origin>>) -> Self {
        assert!(!origins.is_empty(), "an origin has servers");
        let members = origins.into_iter().map(|origin| Member { origin, rests_until: Mutex::default() });
        Self { members: members.collect() }
    }

    /// The positions of the members in the order in which they are asked now.
    fn order(&self) -> Vec<usize> {
        let now = Instant::now();
        let is_resting = |member: &Member| member.rests_until.lock().is_some_and(|end| end > now);
        // Asked last, not never: it may be the only one that has the file.
        let (last, first): (Vec<_>, Vec<_>) =
            self.members.iter().enumerate().partition(|(_, member)| is_resting(member));
        first.into_iter().chain(last).map(|(position, _)| position).collect()
    }

    /// The first answer of a member, and its position. An answer that there is no such file counts only if all members have answered.
    async fn ask<'a, T>(
        &'a self,
        question: impl Fn(&'a dyn Origin) -> OriginFuture<'a, T>,
    ) -> Result<(T, usize), OriginError> {
        let mut failure: Option<OriginError> = None;
        for position in self.order() {
            let Some(member) = self.members.get(position) else { continue };
            match question(member.origin.as_ref()).await {
                Ok(answer) => {
                    member.note_answer(false);
                    return Ok((answer, position));
                }
                Err(error) => {
                    // A refusal is an answer.
                    member.note_answer(error.refusal().is_none() && error.is_retryable());
                    failure = Some(match failure {
                        Some(earlier) => weightier(earlier, error),
                        None => error,
                    });
                }
            }
        }
        Err(failure.unwrap_or_else(|| unreachable_without_members(self.label())))
    }
}

/// Of two failures the one that decides. A server that has not answered may have the file: "no such file" of the others would drop copies.
fn weightier(earlier: OriginError, later: OriginError) -> OriginError {
    let is_final = |error: &OriginError| error.refusal().is_some_and(|kind| !kind.is_retryable());
    // A server without listings says nothing about the directory.
    let says_nothing = earlier.refusal() == Some(RefusalKind::Unsupported);
    if says_nothing || is_final(&earlier) && !is_final(&later) { later } else { earlier }
}

fn unreachable_without_members(label: &str) -> OriginError {
    let endpoint = forebay_types::Endpoint::new("none", 0);
    OriginError::Unreachable { endpoint, reason: format!("{label} has no servers") }
}

impl Member {
    fn note_answer(&self, has_failed: bool) {
        *self.rests_until.lock() = has_failed.then(|| Instant::now() + REST_TIME);
    }
}

impl Origin for Alternatives {
    fn label(&self) -> &str {
        self.members.first().map_or("", |member| member.origin.label())
    }

    fn acts_for_clients(&self) -> bool {
        self.members.iter().any(|member| member.origin.acts_for_clients())
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move {
            let (file, position) = self.ask(|origin| origin.open(path)).await?;
            Ok(Arc::new(OpenFile::new(self.clone(), path.clone(), file, position)) as Arc<dyn OriginFile>)
        })
    }

    fn open_to_read<'a>(&'a self, path: &'a OriginPath, first: ByteRange) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move {
            let (file, position) = self.ask(|origin| origin.open_to_read(path, first)).await?;
            Ok(Arc::new(OpenFile::new(self.clone(), path.clone(), file, position)) as Arc<dyn OriginFile>)
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(async move { Ok(self.ask(|origin| origin.stat(path)).await?.0) })
    }

    fn stat_with_validator<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, (FileStat, Validator)> {
        Box::pin(async move { Ok(self.ask(|origin| origin.stat_with_validator(path)).await?.0) })
    }

    fn list<'a>(&'a self, path: &'a OriginPath, detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(async move { Ok(self.ask(|origin| origin.list(path, detail)).await?.0) })
    }

    fn checksum<'a>(&'a self, path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(async move { Ok(self.ask(|origin| origin.checksum(path, algorithm)).await?.0) })
    }
}

/// A file that is open at one of the members. If that fails, reads continue at another one.
struct OpenFile {
    state: Arc<State>,
}

struct State {
    alternatives: Alternatives,
    path: OriginPath,
    opened: Mutex<Opened>,
    has_unverified: AtomicBool,
}

#[derive(Clone)]
struct Opened {
    file: Arc<dyn OriginFile>,
    position: usize,
}

impl OpenFile {
    fn new(alternatives: Alternatives, path: OriginPath, file: Arc<dyn OriginFile>, position: usize) -> Self {
        let opened = Mutex::new(Opened { file, position });
        Self { state: Arc::new(State { alternatives, path, opened, has_unverified: AtomicBool::new(false) }) }
    }
}

impl OriginFile for OpenFile {
    fn identity(&self) -> FileIdentity {
        self.state.opened().file.identity()
    }

    fn verifies_pages(&self) -> bool {
        !self.state.has_unverified.load(Relaxed) && self.state.opened().file.verifies_pages()
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        // The member that answered last: the one of the open may still be down.
        let opened = self.state.opened();
        let streams = opened.file.read_many(ranges);
        let continued = |(range, chunks): (&ByteRange, Chunks)| {
            let (sender, stream) = Chunks::channel();
            stream.driven_by(Arc::clone(&self.state).pass_on(*range, opened.clone(), chunks, sender))
        };
        ranges.iter().zip(streams).map(continued).collect()
    }
}

impl State {
    fn opened(&self) -> Opened {
        self.opened.lock().clone()
    }

    /// Passes the bytes of `range` on as they arrive, from another member after one has failed.
    async fn pass_on(
        self: Arc<Self>,
        range: ByteRange,
        mut opened: Opened,
        mut chunks: Chunks,
        sender: mpsc::UnboundedSender<Result<crate::Chunk, OriginError>>,
    ) {
        let mut rest = range;
        let mut failures = 0;
        while let Some(received) = chunks.next().await {
            let error = match received {
                Ok(chunk) => {
                    rest = ByteRange::between(rest.start() + chunk.bytes.len() as u64, rest.end());
                    if sender.send(Ok(chunk)).is_err() {
                        return;
                    }
                    continue;
                }
                Err(error) => error,
            };
            failures += 1;
            // Each member gets one chance: its own client has tried again already.
            let is_last = failures >= self.alternatives.members.len() || rest.is_empty();
            let next = if is_last || !error.is_retryable() { None } else { reopen(&self, &opened).await };
            let Some(next) = next else {
                // The receiver may have gone: then there is no reader to notify.
                let _ = sender.send(Err(error));
                return;
            };
            opened = next;
            chunks = opened.file.read(rest);
        }
    }

    /// The file at another member than `failed`, if one has the same content.
    async fn reopen(&self, failed: &Opened) -> Option<Opened> {
        let known = failed.file.identity();
        if let Some(member) = self.alternatives.members.get(failed.position) {
            member.note_answer(true);
        }
        // Another range has failed before: all of them continue at one member.
        let now = self.opened();
        if now.position != failed.position {
            return Some(now);
        }
        for position in self.alternatives.order().into_iter().filter(|position| *position != failed.position) {
            let Some(member) = self.alternatives.members.get(position) else { continue };
            let Ok(file) = member.origin.open(&self.path).await else { continue };
            let found = file.identity();
            // Times and tags are those of one server: size and checksum are what replicas share.
            let is_same = found.size == known.size
                && found.validator.compare_replica(&known.validator) != ValidatorMatch::Different;
            if is_same {
                if !failed.file.verifies_pages() {
                    self.has_unverified.store(true, Relaxed);
                }
                let opened = Opened { file, position };
                *self.opened.lock() = opened.clone();
                return Some(opened);
            }
        }
        None
    }
}

/// As [`State::reopen`], in a task of its own: a reader may not poll its stream for long, and others may wait for the same connection.
async fn reopen(state: &Arc<State>, failed: &Opened) -> Option<Opened> {
    let (state, failed) = (Arc::clone(state), failed.clone());
    tokio::spawn(async move { state.reopen(&failed).await }).await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, DelegatedCredentials};
    use bytes::Bytes;
    use forebay_types::{FileKind, Lfn, OriginId};

    const CONTENT: &[u8] = b"the same bytes everywhere";

    /// An origin that answers with `failure` if there is one; reads of its file fail after `cut` bytes.
    struct Scripted {
        name: &'static str,
        failure: Mutex<Option<RefusalOr>>,
        cut: u64,
        size: u64,
        asked: Mutex<u32>,
    }

    #[derive(Clone, Copy)]
    enum RefusalOr {
        Refusal(RefusalKind),
        Silence,
    }

    struct ScriptedFile {
        identity: FileIdentity,
        cut: u64,
    }

    impl Scripted {
        fn new(name: &'static str, failure: Option<RefusalOr>, cut: u64) -> Arc<Self> {
            let (failure, asked) = (Mutex::new(failure), Mutex::new(0));
            Arc::new(Self { name, failure, cut, size: CONTENT.len() as u64, asked })
        }

        fn answer<T>(&self, answer: T) -> Result<T, OriginError> {
            *self.asked.lock() += 1;
            let endpoint = self.id().endpoint;
            match *self.failure.lock() {
                None => Ok(answer),
                Some(RefusalOr::Refusal(kind)) => Err(OriginError::Refused { endpoint, kind, text: self.name.into() }),
                Some(RefusalOr::Silence) => Err(OriginError::Unreachable { endpoint, reason: self.name.into() }),
            }
        }

        fn id(&self) -> OriginId {
            self.name.parse().unwrap()
        }
    }

    impl Origin for Scripted {
        fn label(&self) -> &str {
            self.name
        }

        fn open<'a>(&'a self, _: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
            let identity = FileIdentity { size: self.size, validator: Validator::default(), origin: self.id() };
            let file: Arc<dyn OriginFile> = Arc::new(ScriptedFile { identity, cut: self.cut });
            Box::pin(async { self.answer(file) })
        }

        fn stat<'a>(&'a self, _: &'a OriginPath) -> OriginFuture<'a, FileStat> {
            let stat = FileStat {
                id: 0,
                kind: FileKind::File,
                size: self.size,
                mtime: 0,
                readable: true,
                executable: false,
                offline: false,
                cached: false,
                access: None,
                validator: None,
            };
            Box::pin(async { self.answer(stat) })
        }

        fn list<'a>(&'a self, _: &'a OriginPath, _: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
            Box::pin(async { self.answer(Vec::new()) })
        }

        fn checksum<'a>(&'a self, _: &'a OriginPath, _: Option<&'a str>) -> OriginFuture<'a, Checksum> {
            Box::pin(async { self.answer(Checksum::new("md5", "aa")) })
        }
    }

    impl OriginFile for ScriptedFile {
        fn identity(&self) -> FileIdentity {
            self.identity.clone()
        }

        fn verifies_pages(&self) -> bool {
            true
        }

        fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
            let read = |range: &ByteRange| {
                let (sender, chunks) = Chunks::channel();
                let end = range.end().min(self.cut);
                if range.start() < end {
                    let [from, to] = [range.start(), end].map(|at| usize::try_from(at).unwrap());
                    sender.send(Ok(Chunk::from(Bytes::from_static(&CONTENT[from..to])))).unwrap();
                }
                if end < range.end() {
                    let endpoint = self.identity.origin.endpoint.clone();
                    let lost = OriginError::Lost { endpoint, doing: "reading", reason: "cut".into() };
                    sender.send(Err(lost)).unwrap();
                }
                chunks
            };
            ranges.iter().map(read).collect()
        }
    }

    fn path() -> OriginPath {
        let (lfn, delegation) = (Lfn::parse("/f").unwrap(), DelegatedCredentials::default());
        OriginPath { lfn, cgi: String::new(), delegation }
    }

    fn of(members: &[Arc<Scripted>]) -> Alternatives {
        Alternatives::new(members.iter().map(|member| Arc::clone(member) as Arc<dyn Origin>).collect())
    }

    async fn read(file: &dyn OriginFile, range: ByteRange) -> Result<Vec<u8>, OriginError> {
        let (mut chunks, mut bytes) = (file.read(range), Vec::new());
        while let Some(chunk) = chunks.next().await {
            bytes.extend_from_slice(&chunk?.bytes);
        }
        Ok(bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn an_origin_that_does_not_answer_is_asked_last_for_a_while() {
        let dead = Scripted::new("dead:1", Some(RefusalOr::Silence), 0);
        let alive = Scripted::new("https://alive", None, 100);
        let both = of(&[Arc::clone(&dead), Arc::clone(&alive)]);
        for _ in 0..3 {
            assert_eq!(both.open(&path()).await.map(|file| file.identity().origin), Ok(alive.id()));
        }
        assert_eq!(*dead.asked.lock(), 1);
        *dead.failure.lock() = None;
        tokio::time::advance(REST_TIME).await;
        assert_eq!(both.open(&path()).await.map(|file| file.identity().origin), Ok(dead.id()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_missing_only_if_all_origins_say_so() {
        let missing = |name| Scripted::new(name, Some(RefusalOr::Refusal(RefusalKind::NotFound)), 0);
        let silent = |name| Scripted::new(name, Some(RefusalOr::Silence), 0);
        for (members, is_missing) in [
            ([missing("a:1"), missing("https://b")], true),
            ([missing("a:1"), silent("https://b")], false),
            ([silent("a:1"), missing("https://b")], false),
        ] {
            let error = of(&members).stat(&path()).await.unwrap_err();
            assert_eq!(error.is_not_found(), is_missing, "{error}");
        }
        let both = of(&[missing("a:1"), Scripted::new("https://b", None, 0)]);
        assert!(both.stat(&path()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_continues_at_the_next_byte_of_another_origin() {
        let whole = ByteRange::at(0, CONTENT.len() as u64);
        let both = of(&[Scripted::new("a:1", None, 7), Scripted::new("https://b", None, 100)]);
        let file = both.open(&path()).await.unwrap();
        assert_eq!(read(file.as_ref(), whole).await.as_deref(), Ok(CONTENT));
        assert_eq!(file.identity().origin.to_string(), "https://b:443");
        // From then on it is the first one that is asked.
        assert_eq!(read(file.as_ref(), ByteRange::at(3, 5)).await.as_deref(), Ok(&CONTENT[3..8]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_does_not_continue_with_another_content() {
        let whole = ByteRange::at(0, CONTENT.len() as u64);
        let other = Scripted { size: 5, ..Arc::into_inner(Scripted::new("https://b", None, 100)).unwrap() };
        let both = of(&[Scripted::new("a:1", None, 7), Arc::new(other)]);
        let file = both.open(&path()).await.unwrap();
        assert!(matches!(read(file.as_ref(), whole).await, Err(OriginError::Lost { .. })));
    }
}
