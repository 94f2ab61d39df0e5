//! Verifies arriving pages, each after its checksum, and moves their data together in place.

use bytes::BytesMut;
use forebay_proto::page::{CHECKSUM_LEN, PAGE_LEN, crc32c, data_len};

/// How many of `received_len` bytes, which begin with the page at file offset `offset`, hold whole pages; the pages
/// are not the last ones of their file.
pub(super) fn whole_len(offset: u64, received_len: usize) -> usize {
    let received_len = u64::try_from(received_len).unwrap_or(u64::MAX);
    let first_len = CHECKSUM_LEN + PAGE_LEN - offset % PAGE_LEN;
    let len = received_len.checked_sub(first_len).map_or(0, |rest| received_len - rest % (CHECKSUM_LEN + PAGE_LEN));
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// The checksums that came with pages.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Sums {
    pub(super) page_sums: Vec<u32>,
    /// The offsets of the pages that do not match theirs.
    pub(super) bad_pages: Vec<u64>,
}

/// Verifies whole pages that begin at file offset `offset`, and removes the checksums between them.
pub(super) fn unpack(encoded: &mut BytesMut, offset: u64) -> Sums {
    let encoded_len = u64::try_from(encoded.len()).unwrap_or(u64::MAX);
    assert!(data_len(offset, encoded_len).is_some(), "the caller takes whole pages only");
    let page_count = encoded.len().div_ceil(CHECKSUM_BYTES.saturating_add(PAGE_BYTES)).saturating_add(1);
    let mut sums = Sums { page_sums: Vec::with_capacity(page_count), bad_pages: Vec::new() };
    let (mut from, mut to, mut at) = (0, 0, offset);
    while let Some((checksum, data_max)) =
        encoded.get(from..).and_then(|rest| rest.split_first_chunk::<CHECKSUM_BYTES>())
    {
        let checksum = u32::from_be_bytes(*checksum);
        // The first page may begin within a page of the file, and the last one may be short.
        let page_len = usize::try_from(PAGE_LEN - at % PAGE_LEN).unwrap_or(usize::MAX).min(data_max.len());
        let data = data_max.get(..page_len).unwrap_or_default();
        if crc32c(data) != checksum {
            sums.bad_pages.push(at);
        }
        // Of damaged pages, too: `repair` finds the checksum by the position of its page.
        sums.page_sums.push(checksum);
        let start = from.saturating_add(CHECKSUM_BYTES);
        encoded.copy_within(start..start.saturating_add(page_len), to);
        from = start.saturating_add(page_len);
        to = to.saturating_add(page_len);
        at = at.saturating_add(u64::try_from(page_len).unwrap_or(u64::MAX));
    }
    encoded.truncate(to);
    sums
}

const CHECKSUM_BYTES: usize = size_of::<u32>();

const PAGE_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::page::{encode_pages, pages};
    use forebay_types::ByteRange;

    fn file(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    fn page_position(at: u64, offset: u64) -> usize {
        usize::try_from(at - offset).unwrap()
    }

    #[test]
    fn pages_are_moved_together() {
        for (offset, len) in [(0, 1), (0, 4096), (0, 4097), (100, 10_000), (4095, 1), (4095, 2), (8192, 40_000)] {
            let data = file(len);
            let mut encoded = Vec::new();
            encode_pages(offset, &data, &mut encoded);
            let mut bytes = BytesMut::from(&encoded[..]);
            let sums = unpack(&mut bytes, offset);
            assert_eq!(bytes, data, "{offset} {len}");
            let range = ByteRange::at(offset, data.len() as u64);
            let of_page =
                |page: ByteRange| crc32c(&data[page_position(page.start(), offset)..page_position(page.end(), offset)]);
            let page_sums = pages(range).map(of_page).collect();
            assert_eq!(sums, Sums { page_sums, bad_pages: Vec::new() }, "{offset} {len}");
        }
    }

    #[test]
    fn bad_pages_are_named_by_their_offset() {
        let mut encoded = Vec::new();
        encode_pages(100, &file(10_000), &mut encoded);
        encoded[4 + 3996 + 4 + 7] ^= 1;
        let mut bytes = BytesMut::from(&encoded[..]);
        assert_eq!(unpack(&mut bytes, 100).bad_pages, [4096]);
        assert_eq!(bytes.len(), 10_000);
    }

    #[test]
    fn only_whole_pages_count() {
        assert_eq!(whole_len(0, 4099), 0);
        assert_eq!(whole_len(0, 4100), 4100);
        assert_eq!(whole_len(0, 8199), 4100);
        assert_eq!(whole_len(0, 8200), 8200);
        assert_eq!(whole_len(4000, 99), 0);
        assert_eq!(whole_len(4000, 100), 100);
        assert_eq!(whole_len(4000, 4200), 4200);
    }
}
