//! Inflates records: chunks, each with a header of nine bytes that names its compression.

use crate::{
    Refusal,
    cursor::Cursor,
    limits::{INFLATED_LEN_MAX, STORED_LEN_MAX},
};
use lzma_rust2::Lzma2Reader;
use miniz_oxide::inflate::{
    TINFLStatus,
    core::{DecompressorOxide, decompress, inflate_flags},
};
use ruzstd::decoding::FrameDecoder;
use std::{borrow::Cow, io::Read};

const CORRUPT: Refusal = Refusal::Damaged("a compressed record");

/// Bytes of the checksum in front of an LZ4 block.
const LZ4_CHECKSUM_LEN: usize = 8;

/// The largest inflated size that a chunk can state, and thus the largest window of a zstd frame.
const CHUNK_LEN_MAX: u64 = 1 << 24;

/// Returns the `len` bytes that `stored` represents; it is not compressed if it has that length.
///
/// # Errors
///
/// If a limit is exceeded, or if the chunks are damaged or do not have this length.
pub fn inflate(stored: &[u8], len: u64) -> Result<Cow<'_, [u8]>, Refusal> {
    if stored.len() as u64 > STORED_LEN_MAX {
        return Err(Refusal::TooLarge("a stored record"));
    }
    if stored.len() as u64 == len {
        return Ok(Cow::Borrowed(stored));
    }
    if len > INFLATED_LEN_MAX {
        return Err(Refusal::TooLarge("an inflated record"));
    }
    check_chunks(stored, len)?;
    let mut inflated = vec![0; usize::try_from(len).map_err(|_| Refusal::TooLarge("an inflated record"))?];
    let mut rest = inflated.as_mut_slice();
    let mut chunks = Cursor::new(stored);
    while !rest.is_empty() {
        let chunk = Chunk::next(&mut chunks)?;
        let (out, behind) = rest.split_at_mut_checked(chunk.len).ok_or(CORRUPT)?;
        chunk.inflate_into(out)?;
        rest = behind;
    }
    Ok(Cow::Owned(inflated))
}

/// Whether the headers of all chunks agree with the length of the record: before memory is reserved for it.
fn check_chunks(stored: &[u8], len: u64) -> Result<(), Refusal> {
    let mut chunks = Cursor::new(stored);
    let mut total = 0;
    while total < len {
        let chunk = Chunk::next(&mut chunks)?;
        if chunk.len == 0 {
            return Err(CORRUPT);
        }
        total += chunk.len as u64;
    }
    if total == len { Ok(()) } else { Err(CORRUPT) }
}

/// A compressed part of a record.
struct Chunk<'a> {
    kind: &'a [u8],
    data: &'a [u8],
    /// Bytes of this chunk when inflated.
    len: usize,
}

impl<'a> Chunk<'a> {
    fn next(from: &mut Cursor<'a>) -> Result<Self, Refusal> {
        let kind = from.take(2)?;
        from.skip(1)?;
        let mut size = || {
            let [low, middle, high] = [from.u8()?, from.u8()?, from.u8()?].map(usize::from);
            Ok(low | middle << 8 | high << 16)
        };
        let (stored_len, len) = (size()?, size()?);
        Ok(Self { kind, data: from.take(stored_len)?, len })
    }

    fn inflate_into(&self, out: &mut [u8]) -> Result<(), Refusal> {
        let done = match self.kind {
            b"ZL" => inflate_deflate(self.data, out, inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER),
            b"CS" => inflate_deflate(self.data, out, 0),
            b"XZ" => inflate_xz(self.data, out)?,
            b"L4" => {
                let block = self.data.get(LZ4_CHECKSUM_LEN..).ok_or(CORRUPT)?;
                lz4_flex::block::decompress_into(block, out).ok()
            }
            b"ZS" => {
                let mut decoder = FrameDecoder::new();
                decoder.set_max_window_size(CHUNK_LEN_MAX);
                decoder.decode_all(self.data, out).ok()
            }
            _ => return Err(Refusal::UnknownVersion("compression")),
        };
        if done == Some(out.len()) { Ok(()) } else { Err(CORRUPT) }
    }
}

/// Inflates into `out`; returns the number of bytes.
fn inflate_deflate(data: &[u8], out: &mut [u8], flags: u32) -> Option<usize> {
    let flags =
        flags | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF | inflate_flags::TINFL_FLAG_IGNORE_ADLER32;
    let (status, _, len) = decompress(&mut DecompressorOxide::new(), data, out, 0, flags);
    (status == TINFLStatus::Done).then_some(len)
}

/// Inflates an xz stream of one block, as ROOT writes it. The headers are read here and not by the decoder, so that the
/// dictionary is never larger than what it can be useful for.
fn inflate_xz(data: &[u8], out: &mut [u8]) -> Result<Option<usize>, Refusal> {
    const MAGIC: &[u8] = b"\xfd7zXZ\0";
    const STREAM_FLAGS_AND_CHECKSUM_LEN: usize = 6;
    /// The flags of a block: number of filters less one, and whether its sizes are stated.
    const ONE_FILTER_AND_SIZES: u8 = 0xc0;
    const FILTER_LZMA2: u8 = 0x21;
    let unknown = Refusal::UnknownVersion("an xz stream");
    let mut stream = Cursor::new(data);
    if stream.take(MAGIC.len())? != MAGIC {
        return Err(CORRUPT);
    }
    stream.skip(STREAM_FLAGS_AND_CHECKSUM_LEN)?;
    let block = stream.position();
    let header_len = 4 * (usize::from(stream.u8()?) + 1);
    let flags = stream.u8()?;
    if flags & !ONE_FILTER_AND_SIZES != 0 {
        return Err(unknown);
    }
    for _ in 0..flags.count_ones() {
        while stream.u8()? & 0x80 != 0 {}
    }
    if stream.u8()? != FILTER_LZMA2 {
        return Err(unknown);
    }
    stream.go_to(block + header_len)?;
    let chunks = stream.take(stream.remaining())?;
    let dictionary_len = u32::try_from(out.len()).map_err(|_| CORRUPT)?;
    let mut reader = Lzma2Reader::new(chunks, dictionary_len, None);
    Ok(reader.read_exact(out).ok().map(|()| out.len()))
}
