//! The value of `Range` for a file of any size: ranges lie in the file, and the length of their body is exact.

#![no_main]

use forebay_http_proto::{PartHeads, RANGES_MAX, Ranges, ranges_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &str)| {
    let (size, value) = input;
    let ranges = match ranges_of(Some(value), size) {
        Ranges::One(range) => vec![range],
        Ranges::Many(ranges) => {
            assert!(ranges.len() >= 2);
            ranges
        }
        Ranges::Whole | Ranges::Unsatisfiable | Ranges::TooMany => return,
    };
    assert!(ranges.len() <= RANGES_MAX);
    assert!(ranges.iter().all(|range| !range.is_empty() && range.end() <= size));
    let parts = PartHeads::new(size);
    let mut heads = String::new();
    ranges.iter().for_each(|range| parts.push(*range, &mut heads));
    let bodies: u128 = ranges.iter().map(|range| u128::from(range.len())).sum();
    let len = bodies + (heads.len() + PartHeads::END.len()) as u128;
    assert_eq!(parts.body_len(&ranges).map(u128::from), u64::try_from(len).ok().map(u128::from));
});
