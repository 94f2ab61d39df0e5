//! The good answers of a scripted server, and damaged ones.

use super::Facts;
use crate::bytes_at;
use forebay_proto::{
    ErrorCode, FileHandle, OpenOptions, QueryKind, ReplyTo, Request, Status, StreamId,
    page::{self, FrameKind, PAGE_LEN, STATUS_FRAME_LEN, StatusFrame},
    request::{Query, ReadElement, ReadElements},
    response::{Checksum, DirlistEncoder, DirlistForm, Location, LocationKind, element_header},
};
use forebay_types::{ByteRange, DirEntry, Endpoint, FileKind, FileStat};

/// Whom to answer, and with what.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) facts: &'a Facts,
    pub(super) to: ReplyTo,
    pub(super) stream_id: StreamId,
}

impl Context<'_> {
    pub(super) fn good(&self, request: &Request<'_>) -> Vec<u8> {
        self.short(request, u64::MAX)
    }

    /// The answer as if each range of a read held no more than `len` bytes.
    pub(super) fn short(&self, request: &Request<'_>, len: u64) -> Vec<u8> {
        let clip = |offset: u64, asked: u32| {
            ByteRange::at(offset, u64::from(asked).min(len)).clipped_to(self.facts.size.max(offset))
        };
        let mut out = Vec::new();
        match request {
            Request::Open(open) => self.open(open.options, &mut out),
            Request::Stat(_) => self.to.stat(&self.stat(), &mut out),
            Request::Read(read) => self.bytes(clip(read.offset, read.len), &mut out),
            Request::PageRead(read) => self.pages(clip(read.offset, read.len), &mut out),
            Request::ReadVector(read) => self.elements(read.elements, &mut out),
            Request::Dirlist(dirlist) => self.dirlist(DirlistForm::asked_by(dirlist.options), &mut out),
            Request::Locate(_) => {
                let endpoint = Endpoint::new("localhost", 1);
                self.to.locate(&[Location { kind: LocationKind::Server, is_writable: false, endpoint }], &mut out);
            }
            Request::Query(query) => self.query(query, &mut out),
            _ => self.to.ok(&mut out),
        }
        out
    }

    /// The answer to a page read with one bit wrong in the page at `offset`.
    pub(super) fn corrupt(&self, request: &Request<'_>, offset: u64) -> Vec<u8> {
        let mut out = self.good(request);
        if let Request::PageRead(read) = request
            && (read.offset..read.offset + u64::from(read.len)).contains(&offset)
        {
            let before = page::encoded_len(ByteRange::between(read.offset, offset - offset % PAGE_LEN));
            let whole_frames = ByteRange::between(read.offset, offset).len() / self.facts.frame_len;
            let at = (whole_frames + 1) * STATUS_FRAME_LEN as u64 + before + 4;
            if let Some(byte) = usize::try_from(at).ok().and_then(|at| out.get_mut(at)) {
                *byte ^= 1;
            }
        }
        out
    }

    fn stat(&self) -> FileStat {
        FileStat {
            id: 1,
            kind: FileKind::File,
            size: self.facts.size,
            mtime: self.facts.mtime,
            readable: true,
            executable: false,
            offline: false,
            cached: false,
            access: None,
            validator: None,
        }
    }

    fn open(&self, options: OpenOptions, out: &mut Vec<u8>) {
        let answered = if self.facts.stat_with_open { options } else { options.without(OpenOptions::RETURN_STAT) };
        self.to.open(FileHandle([0, 0, 0, 7]), answered, &self.stat(), out);
    }

    fn bytes(&self, range: ByteRange, out: &mut Vec<u8>) {
        let mut rest = range;
        loop {
            let frame = ByteRange::at(rest.start(), rest.len().min(self.facts.frame_len));
            rest = ByteRange::between(frame.end(), rest.end());
            let status = if rest.is_empty() { Status::OK } else { Status::OKSOFAR };
            self.to.header(status, len32(frame.len()), out);
            out.extend(bytes_of(frame));
            if rest.is_empty() {
                return;
            }
        }
    }

    fn pages(&self, range: ByteRange, out: &mut Vec<u8>) {
        let mut rest = range;
        loop {
            let aligned = rest.start() - rest.start() % PAGE_LEN;
            let frame = ByteRange::between(rest.start(), rest.end().min(aligned + self.facts.frame_len));
            rest = ByteRange::between(frame.end(), rest.end());
            let kind = if rest.is_empty() { FrameKind::Final } else { FrameKind::Partial };
            StatusFrame::page_read(self.stream_id, kind, frame).encode(out);
            page::encode_pages(frame.start(), &bytes_of(frame), out);
            if rest.is_empty() {
                return;
            }
        }
    }

    /// Each element in a frame of its own, the second half first: order does not matter.
    fn elements(&self, elements: ReadElements<'_>, out: &mut Vec<u8>) {
        let mut elements: Vec<ReadElement> = elements.iter().collect();
        if elements.iter().any(|element| element.offset + u64::from(element.len) > self.facts.size) {
            return self.to.error(ErrorCode::FS_ERROR, "readv past EOF", out);
        }
        let half = elements.len() / 2;
        elements.rotate_left(half);
        let count = elements.len();
        for (index, element) in elements.iter().enumerate() {
            let status = if index + 1 == count { Status::OK } else { Status::OKSOFAR };
            self.to.header(status, element.len + 16, out);
            out.extend(element_header(element));
            out.extend(bytes_of(ByteRange::at(element.offset, element.len.into())));
        }
    }

    fn dirlist(&self, form: DirlistForm, out: &mut Vec<u8>) {
        let form = if self.facts.stats_in_listing { form } else { DirlistForm::Names };
        let mut encoder = DirlistEncoder::new(self.to, form);
        for name in &self.facts.names {
            let checksum = Some(("adler32".to_owned(), "00000001".to_owned()));
            encoder.push(&DirEntry { name: name.clone(), stat: Some(self.stat()), checksum }, out);
        }
        encoder.finish(out);
    }

    fn query(&self, query: &Query<'_>, out: &mut Vec<u8>) {
        match query.kind {
            QueryKind::CHECKSUM => self.to.checksum(&Checksum::new("adler32", "1a2b3c"), out),
            QueryKind::CONFIG => self.to.config(["2097136", "1024"], out),
            _ => self.to.error(ErrorCode::UNSUPPORTED, "no such query", out),
        }
    }
}

fn bytes_of(range: ByteRange) -> Vec<u8> {
    bytes_at(range.start(), usize::try_from(range.len()).expect("test ranges are small"))
}

fn len32(len: u64) -> u32 {
    u32::try_from(len).expect("test ranges are small")
}
