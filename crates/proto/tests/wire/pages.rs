//! How ranges are cut into pages and frames.

use forebay_proto::page::{
    FrameKind, StatusFrame, data_len, decode_pages, encoded_len, frames, page_count, pages, seal_pages,
};
use forebay_proto::{ResponseError, StreamId};
use forebay_types::ByteRange;

fn lengths(parts: impl Iterator<Item = ByteRange>) -> Vec<u64> {
    parts.map(ByteRange::len).collect()
}

#[test]
fn pages_are_aligned_to_the_file() {
    assert_eq!(lengths(pages(ByteRange::at(100, 10_000))), [3996, 4096, 1908]);
    assert_eq!(lengths(pages(ByteRange::at(4096, 4096))), [4096]);
    assert_eq!(lengths(pages(ByteRange::at(4095, 2))), [1, 1]);
    assert_eq!(lengths(pages(ByteRange::at(5, 0))), []);
}

#[test]
fn captured_lengths() {
    // 5000 bytes at 0 are two pages; 8 MiB at 0 are four frames of 2099200 bytes.
    assert_eq!(encoded_len(ByteRange::at(0, 5000)), 5008);
    let parts: Vec<ByteRange> = frames(ByteRange::at(0, 8 << 20)).collect();
    assert_eq!(parts.len(), 4);
    for part in parts {
        let frame = StatusFrame::page_read(StreamId::ZERO, FrameKind::Partial, part);
        assert_eq!((frame.data_len, frame.offset), (2_099_200, part.start()));
    }
}

#[test]
fn frames_hold_at_most_512_pages_and_begin_at_page_boundaries() {
    for (offset, len, expected) in [
        (0, 2 << 20, vec![2 << 20]),
        (0, (2 << 20) + 1, vec![2 << 20, 1]),
        (1, 2 << 20, vec![(2 << 20) - 1, 1]),
        (4095, 3 << 20, vec![(2 << 20) - 4095, (1 << 20) + 4095]),
        (7, 0, vec![]),
    ] {
        let range = ByteRange::at(offset, len);
        assert_eq!(lengths(frames(range)), expected, "{range}");
        assert!(frames(range).all(|part| page_count(part) <= 512));
        assert!(frames(range).skip(1).all(|part| part.start() % 4096 == 0));
    }
}

#[test]
fn ranges_at_the_end_of_all_offsets_do_not_overflow() {
    let range = ByteRange::between(u64::MAX - 5000, u64::MAX);
    assert_eq!(lengths(pages(range)).iter().sum::<u64>(), 5000);
    assert_eq!(lengths(frames(range)), [5000]);
    assert_eq!(page_count(range), 2);
}

#[test]
fn a_last_page_has_at_least_one_byte() {
    for (offset, encoded, expected) in [
        (0, 0, Some(0)),
        (0, 4, None),
        (0, 5, Some(1)),
        (0, 4100, Some(4096)),
        (0, 4104, None),
        (0, 4105, Some(4097)),
        (100, 4000, Some(3996)),
        (100, 4001, None),
        (100, 4005, Some(3997)),
        (4095, 5, Some(1)),
        (4095, 6, None),
    ] {
        assert_eq!(data_len(offset, encoded), expected, "{encoded} at {offset}");
        let bytes = vec![0; usize::try_from(encoded).unwrap()];
        assert_eq!(decode_pages(offset, &bytes).is_ok(), expected.is_some());
    }
    assert!(matches!(decode_pages(0, &[0; 3]).map(Iterator::count), Err(ResponseError::Malformed { .. })));
}

#[test]
fn a_gap_without_data_is_left_alone() {
    let mut gap = [9; 4];
    seal_pages(0, &mut gap);
    assert_eq!(gap, [9; 4]);
    seal_pages(0, &mut []);
}
