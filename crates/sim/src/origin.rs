//! The simulated origin: slow, at times away, at times wrong, with files that change.

use crate::{
    content::Content,
    dice::Dice,
    world::{World, file_at},
};
use bytes::Bytes;
use forebay_origin::{
    Checksum, Chunks, FileIdentity, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath, RefusalKind,
};
use forebay_types::{ByteRange, DirEntry, Endpoint, FileKind, FileStat, Validator};
use parking_lot::{Mutex, MutexGuard};
use std::{sync::Arc, time::Duration};

#[derive(Clone)]
pub(crate) struct SimOrigin {
    world: World,
    dice: Arc<Mutex<Dice>>,
}

/// One of its files, as it was when it was opened: what replaces it later is another file.
struct SimFile {
    origin: SimOrigin,
    content: Content,
    size: u64,
    verifies_pages: bool,
}

impl SimOrigin {
    pub(crate) fn new(world: World, dice: Dice) -> Self {
        Self { world, dice: Arc::new(Mutex::new(dice)) }
    }

    pub(crate) fn endpoint() -> Endpoint {
        Endpoint::new("origin", 1094)
    }

    fn dice(&self) -> MutexGuard<'_, Dice> {
        self.dice.lock()
    }

    /// Takes the time of a request, and fails as the world says.
    async fn round_trip(&self, doing: &'static str) -> Result<(), OriginError> {
        let (latency_ms, is_away, fails_one_in) = {
            let state = self.world.state();
            (state.origin_latency_ms, state.origin_away, state.origin_fails_one_in)
        };
        let (latency, fails, error) = {
            let mut dice = self.dice();
            let fails = fails_one_in > 0 && dice.one_in(fails_one_in);
            (dice.millis(0..=latency_ms), fails, fault(&mut dice, doing))
        };
        tokio::time::sleep(latency).await;
        if is_away {
            return Err(OriginError::Unreachable { endpoint: Self::endpoint(), reason: "simulated".to_owned() });
        }
        if fails { Err(error) } else { Ok(()) }
    }

    fn find(&self, path: &OriginPath) -> Result<(Content, u64), OriginError> {
        let found = file_at(path.lfn.as_str()).and_then(|file| self.world.state().current(file));
        let kind = RefusalKind::NotFound;
        let text = "no such file".to_owned();
        found.ok_or_else(|| OriginError::Refused { endpoint: Self::endpoint(), kind, text })
    }
}

impl Origin for SimOrigin {
    fn label(&self) -> &str {
        "origin:1094"
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async move {
            self.round_trip("opening").await?;
            let (content, size) = self.find(path)?;
            let verifies_pages = !self.dice().one_in(4);
            Ok(Arc::new(SimFile { origin: self.clone(), content, size, verifies_pages }) as Arc<dyn OriginFile>)
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(async move {
            self.round_trip("asking about").await?;
            let (content, size) = self.find(path)?;
            let mtime = content.mtime();
            let kind = FileKind::File;
            let readable = true;
            let executable = false;
            Ok(FileStat {
                id: content.file,
                kind,
                size,
                mtime,
                readable,
                executable,
                offline: false,
                cached: false,
                access: None,
                validator: None,
            })
        })
    }

    fn list<'a>(&'a self, _path: &'a OriginPath, _detail: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(async move {
            self.round_trip("listing").await?;
            Ok(Vec::new())
        })
    }

    fn checksum<'a>(&'a self, _path: &'a OriginPath, algorithm: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(async move {
            self.round_trip("asking for the checksum of").await?;
            let what = format!("checksum {}", algorithm.unwrap_or("adler32"));
            Err(OriginError::Protocol { endpoint: Self::endpoint(), what })
        })
    }
}

impl OriginFile for SimFile {
    fn identity(&self) -> FileIdentity {
        FileIdentity {
            size: self.size,
            validator: Validator::of_mtime(self.content.mtime()),
            origin: SimOrigin::endpoint().into(),
        }
    }

    fn verifies_pages(&self) -> bool {
        self.verifies_pages
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        ranges.iter().map(|range| self.send(*range)).collect()
    }
}

impl SimFile {
    /// Sends a range in chunks of any length, each after some time; breaks off where it fails.
    fn send(&self, range: ByteRange) -> Chunks {
        if range.is_empty() || range.end() > self.size {
            self.origin.world.find(format!("the origin is asked for {range} of {} bytes", self.size));
        }
        let (sender, chunks) = Chunks::channel();
        let origin = self.origin.clone();
        let content = self.content;
        let is_replaced = self.is_replaced();
        tokio::spawn(async move {
            if is_replaced && origin.dice().one_in(3) {
                let _ = sender.send(Err(OriginError::Changed { endpoint: SimOrigin::endpoint() }));
                return;
            }
            let mut rest = range;
            while !rest.is_empty() {
                if let Err(error) = origin.round_trip("reading").await {
                    let _ = sender.send(Err(error));
                    return;
                }
                let len = origin.dice().within(1..=50_000).min(rest.len());
                let chunk = ByteRange::at(rest.start(), len);
                if sender.send(Ok(Bytes::from(content.bytes(chunk)).into())).is_err() {
                    return;
                }
                rest = ByteRange::between(chunk.end(), rest.end());
            }
        });
        chunks
    }

    fn is_replaced(&self) -> bool {
        self.origin.world.state().current(self.content.file).is_none_or(|(content, _)| content != self.content)
    }
}

/// Some error of the kinds that a lost connection brings.
fn fault(dice: &mut Dice, doing: &'static str) -> OriginError {
    let endpoint = SimOrigin::endpoint();
    match dice.below(3) {
        0 => OriginError::Lost { endpoint, doing, reason: "simulated".to_owned() },
        1 => OriginError::TimedOut { endpoint, doing, seconds: Duration::from_secs(60).as_secs() },
        _ => OriginError::Corrupt { endpoint, offset: 0 },
    }
}
