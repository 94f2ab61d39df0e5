//! A simulated client: opens files, reads ranges of them, compares every byte, leaves some reads before their end.

use crate::{
    content::{Content, is_root},
    dice::Dice,
    scenario::some_file,
    world::{World, path_of},
};
use forebay_engine::{Caller, Engine, Handle, OpenRequest, Read, Segment};
use forebay_types::{ByteRange, Lfn};
use std::{os::unix::fs::FileExt, time::Duration};
use tokio::time::timeout;

/// A client of one engine.
pub(crate) struct SimClient {
    pub(crate) number: u64,
    pub(crate) world: World,
    pub(crate) dice: Dice,
    pub(crate) engine: Engine,
}

/// Time after which a request counts as stuck: every wait that the engine has is shorter.
const STUCK_AFTER: Duration = Duration::from_secs(3600);

/// The first read of a reader of ROOT files.
const HEAD: ByteRange = ByteRange::at(0, 300);

/// Longest vector of a read.
const RANGES_MAX: u64 = 4;

impl SimClient {
    /// Visits files until the world is over.
    pub(crate) async fn run(mut self) {
        while !self.world.state().is_over {
            let pause = self.dice.millis(0..=800);
            tokio::time::sleep(pause).await;
            self.visit().await;
        }
    }

    async fn visit(&mut self) {
        let file = some_file(&mut self.dice);
        let request = OpenRequest::of(Lfn::parse(&path_of(file)).expect("a good path"));
        let caller = Caller::operator("");
        if self.dice.one_in(6) {
            let stat = self.bounded("stat", self.engine.clone().stat(&request, &caller)).await;
            return self.note(stat.is_some_and(|stat| stat.is_ok()));
        }
        let engine = self.engine.clone();
        let freshest = self.world.state().freshest(file);
        let Some(opened) = self.bounded("open", engine.open(&request, &caller)).await else { return };
        self.note(opened.is_ok());
        let Ok(handle) = opened else { return };
        self.world.state().summary.opens += 1;
        let Some(content) = self.content_of(file, &handle) else { return };
        if freshest.is_some_and(|(events, freshest)| self.world.state().events == events && content < freshest) {
            self.world.find(format!("{content:?} was opened, the origin had {freshest:?}"));
        }
        // As readers of ROOT files begin: the cache looks at the structure then.
        if is_root(file) && handle.size() > HEAD.end() && self.dice.one_in(2) {
            self.read(&handle, content, vec![HEAD]).await;
        }
        for _ in 0..=self.dice.below(4) {
            if handle.size() == 0 {
                continue;
            }
            let count = self.dice.below(RANGES_MAX);
            let ranges = (0..=count).map(|_| self.range(handle.size())).collect();
            self.read(&handle, content, ranges).await;
            let pause = self.dice.millis(0..=200);
            tokio::time::sleep(pause).await;
        }
    }

    /// Which version the handle shows, by its change time; its size must be that version's.
    fn content_of(&self, file: u64, handle: &Handle) -> Option<Content> {
        let stat = handle.stat();
        let content = Content::of_mtime(file, stat.mtime);
        let size = content.and_then(|content| self.world.state().sizes.get(&content).copied());
        if size != Some(handle.size()) || stat.size != handle.size() {
            self.world.find(format!("file {file} opened as {stat:?}: it never was like this"));
            return None;
        }
        content
    }

    async fn read(&mut self, handle: &Handle, content: Content, ranges: Vec<ByteRange>) {
        if let [range] = ranges[..]
            && let Some(file) = handle.hit(range)
        {
            let segment = Segment::File { file: file.clone(), range };
            self.compare(content, range.start(), segment);
            return self.note(true);
        }
        for (read, range) in handle.read_many(&ranges).into_iter().zip(ranges) {
            let leaves_at = if self.dice.one_in(5) { self.dice.below(range.len()) } else { u64::MAX };
            self.drain(read, range, leaves_at, content).await;
        }
    }

    /// Reads to the end, to an error, or until `leaves_at` bytes have come.
    async fn drain(&mut self, mut read: Read, range: ByteRange, leaves_at: u64, content: Content) {
        let mut position = range.start();
        while position - range.start() < leaves_at {
            match self.bounded("read", read.next()).await {
                None => return,
                Some(Some(Ok(segment))) => {
                    let len = segment.len();
                    self.compare(content, position, segment);
                    position += len;
                }
                Some(Some(Err(_))) => return self.note(false),
                Some(None) => {
                    if position != range.end() {
                        self.world.find(format!("a read of {range} ended at {position} without an error"));
                    }
                    return self.note(true);
                }
            }
        }
    }

    /// Compares the bytes of a segment, which begins at `offset`.
    fn compare(&self, content: Content, offset: u64, segment: Segment) {
        let bytes = match segment {
            Segment::Memory(bytes) => bytes.to_vec(),
            Segment::File { file, range } => {
                let mut bytes = vec![0; usize::try_from(range.len()).unwrap_or(0)];
                if let Err(error) = file.read_exact_at(&mut bytes, range.start()) {
                    self.world.find(format!("{range} of file {} cannot be read from disk: {error}", content.file));
                    return;
                }
                bytes
            }
        };
        if bytes.is_empty() {
            self.world.find(format!("an empty segment at {offset}"));
        }
        if let Some(at) = content.first_difference(offset, &bytes) {
            self.world.find(format!("wrong byte at {at} of {content:?}, in {} bytes from {offset} on", bytes.len()));
        }
        self.world.state().summary.compared_bytes += bytes.len() as u64;
    }

    /// A range that is not empty: anything, small, whole, or the end.
    fn range(&mut self, size: u64) -> ByteRange {
        let start = self.dice.below(size);
        match self.dice.below(5) {
            0 => ByteRange::between(0, size),
            1 => ByteRange::between(start, size),
            2 => ByteRange::between(start, size.min(start + 1 + self.dice.below(100))),
            _ => ByteRange::between(start, start + 1 + self.dice.below(size - start)),
        }
    }

    /// The answer to a request; `None`, and a finding, when it is stuck.
    async fn bounded<T>(&self, what: &str, request: impl Future<Output = T>) -> Option<T> {
        let answer = timeout(STUCK_AFTER, request).await.ok();
        if answer.is_none() {
            self.world.find(format!("client {}: a {what} has had no answer for an hour", self.number));
        }
        answer
    }

    fn note(&self, is_good: bool) {
        if !is_good {
            self.world.state().summary.errors += 1;
        }
        self.world.note(self.number, u64::from(is_good));
    }
}
