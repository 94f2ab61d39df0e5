//! Pages as they arrive, checksum before data: verified and moved together in place.

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

/// Verifies whole pages that begin at file offset `offset` and drops their checksums from between them; returns the
/// offsets of those that do not match.
pub(super) fn unpack(encoded: &mut BytesMut, offset: u64) -> Vec<u64> {
    let encoded_len = u64::try_from(encoded.len()).unwrap_or(u64::MAX);
    assert!(data_len(offset, encoded_len).is_some(), "the caller takes whole pages only");
    let mut bad_pages = Vec::new();
    let (mut from, mut to, mut at) = (0, 0, offset);
    while let Some((checksum, data_max)) =
        encoded.get(from..).and_then(|rest| rest.split_first_chunk::<CHECKSUM_BYTES>())
    {
        let checksum = u32::from_be_bytes(*checksum);
        let page_len = usize::try_from(PAGE_LEN - at % PAGE_LEN).unwrap_or(usize::MAX).min(data_max.len());
        let data = data_max.get(..page_len).unwrap_or_default();
        if crc32c(data) != checksum {
            bad_pages.push(at);
        }
        let start = from.saturating_add(CHECKSUM_BYTES);
        encoded.copy_within(start..start.saturating_add(page_len), to);
        from = start.saturating_add(page_len);
        to = to.saturating_add(page_len);
        at = at.saturating_add(u64::try_from(page_len).unwrap_or(u64::MAX));
    }
    encoded.truncate(to);
    bad_pages
}

const CHECKSUM_BYTES: usize = size_of::<u32>();

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_proto::page::encode_pages;

    fn file(len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
    }

    #[test]
    fn pages_are_moved_together() {
        for (offset, len) in [(0, 1), (0, 4096), (0, 4097), (100, 10_000), (4095, 1), (4095, 2), (8192, 40_000)] {
            let data = file(len);
            let mut encoded = Vec::new();
            encode_pages(offset, &data, &mut encoded);
            let mut bytes = BytesMut::from(&encoded[..]);
            assert!(unpack(&mut bytes, offset).is_empty(), "{offset} {len}");
            assert_eq!(bytes, data, "{offset} {len}");
        }
    }

    #[test]
    fn bad_pages_are_named_by_their_offset() {
        let mut encoded = Vec::new();
        encode_pages(100, &file(10_000), &mut encoded);
        encoded[4 + 3996 + 4 + 7] ^= 1;
        let mut bytes = BytesMut::from(&encoded[..]);
        assert_eq!(unpack(&mut bytes, 100), [4096]);
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
