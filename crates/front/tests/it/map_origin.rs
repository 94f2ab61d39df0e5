//! A second origin: the files of a map. It uses the trait and the types alone.

use bytes::Bytes;
use forebay_origin::{
    Checksum, Chunk, Chunks, FileIdentity, ListDetail, Origin, OriginError, OriginFile, OriginFuture, OriginPath,
    RefusalKind,
};
use forebay_types::{ByteRange, DirEntry, Endpoint, FileKind, FileStat, Validator};
use parking_lot::Mutex;
use std::{collections::BTreeMap, sync::Arc};

const MTIME: i64 = 1_700_000_000;

/// Files by their paths. Clones share the list of the ranges that were read.
#[derive(Clone, Default)]
pub(crate) struct MapOrigin {
    pub(crate) files: BTreeMap<String, Bytes>,
    pub(crate) reads: Arc<Mutex<Vec<ByteRange>>>,
}

struct MapFile {
    bytes: Bytes,
    reads: Arc<Mutex<Vec<ByteRange>>>,
}

impl MapOrigin {
    pub(crate) fn endpoint() -> Endpoint {
        Endpoint::new("map", 1)
    }

    fn find(&self, path: &OriginPath) -> Result<Bytes, OriginError> {
        self.files.get(path.lfn.as_str()).cloned().ok_or_else(|| refusal(RefusalKind::NotFound, "no such file"))
    }
}

impl Origin for MapOrigin {
    fn label(&self) -> &str {
        "map:1"
    }

    fn open<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, Arc<dyn OriginFile>> {
        Box::pin(async {
            let file = MapFile { bytes: self.find(path)?, reads: Arc::clone(&self.reads) };
            Ok(Arc::new(file) as Arc<dyn OriginFile>)
        })
    }

    fn stat<'a>(&'a self, path: &'a OriginPath) -> OriginFuture<'a, FileStat> {
        Box::pin(async {
            let size = self.find(path)?.len() as u64;
            let (kind, readable) = (FileKind::File, true);
            Ok(FileStat {
                id: 1,
                kind,
                size,
                mtime: MTIME,
                readable,
                executable: false,
                offline: false,
                cached: false,
                access: None,
                validator: None,
            })
        })
    }

    fn list<'a>(&'a self, _: &'a OriginPath, _: ListDetail) -> OriginFuture<'a, Vec<DirEntry>> {
        Box::pin(async { Err(refusal(RefusalKind::Unsupported, "no directories")) })
    }

    fn checksum<'a>(&'a self, _: &'a OriginPath, _: Option<&'a str>) -> OriginFuture<'a, Checksum> {
        Box::pin(async { Err(refusal(RefusalKind::Unsupported, "no checksums")) })
    }
}

impl OriginFile for MapFile {
    fn identity(&self) -> FileIdentity {
        let (size, validator) = (self.bytes.len() as u64, Validator::of_mtime(MTIME));
        FileIdentity { size, validator, origin: MapOrigin::endpoint().into() }
    }

    fn verifies_pages(&self) -> bool {
        false
    }

    fn read_many(&self, ranges: &[ByteRange]) -> Vec<Chunks> {
        self.reads.lock().extend(ranges);
        ranges.iter().map(|range| self.send(*range)).collect()
    }
}

impl MapFile {
    fn send(&self, range: ByteRange) -> Chunks {
        let (sender, chunks) = Chunks::channel();
        let [start, end] = [range.start(), range.end()].map(|offset| usize::try_from(offset).unwrap());
        sender.send(Ok(Chunk::from(self.bytes.slice(start..end)))).unwrap();
        chunks
    }
}

fn refusal(kind: RefusalKind, text: &str) -> OriginError {
    OriginError::Refused { endpoint: MapOrigin::endpoint(), kind, text: text.to_owned() }
}
