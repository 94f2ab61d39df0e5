//! Both sides of the limits of keys, trees and directories.

use crate::golden::parse;
use forebay_structure::{Outcome, limits};

/// Position of the directory record and, behind it, of the list of keys.
const DIRECTORY: usize = 100;
const KEYS: usize = 142;

/// A key at `position` without contents.
fn key(position: usize, class: &str, name: &str) -> Vec<u8> {
    let key_len = 26 + 3 + class.len() + name.len();
    let mut key = Vec::new();
    key.extend(u32::try_from(key_len).unwrap_or(0).to_be_bytes());
    key.extend(4_u16.to_be_bytes());
    key.extend([0; 8]);
    key.extend(u16::try_from(key_len).unwrap_or(0).to_be_bytes());
    key.extend(1_u16.to_be_bytes());
    key.extend(u32::try_from(position).unwrap_or(0).to_be_bytes());
    key.extend([0; 4]);
    for text in [class, name, ""] {
        key.push(u8::try_from(text.len()).unwrap_or(0));
        key.extend(text.as_bytes());
    }
    key
}

/// A file with `count` keys of a class, all at the same position.
fn file(count: usize, class: &str, position: usize) -> Vec<u8> {
    let mut list = key(KEYS, "", "");
    list.extend(u32::try_from(count).unwrap_or(0).to_be_bytes());
    for number in 0..count {
        list.extend(key(position, class, &number.to_string()));
    }
    let mut file = b"root\0\0\xf4\x24\0\0\0\x64".to_vec();
    file.resize(DIRECTORY, 0);
    file.extend(5_u16.to_be_bytes());
    file.extend([0; 8]);
    file.extend(u32::try_from(list.len()).unwrap_or(0).to_be_bytes());
    file.extend([0; 12]);
    file.extend(u32::try_from(KEYS).unwrap_or(0).to_be_bytes());
    file.resize(KEYS, 0);
    file.extend(list);
    file
}

#[test]
fn keys_and_trees_are_limited() {
    for (count, class, outcome) in [
        (limits::KEYS_MAX, "TH1F", Outcome::None),
        (limits::KEYS_MAX + 1, "TH1F", Outcome::TooLarge),
        // Empty records: each tree by itself is damaged.
        (limits::TREES_MAX, "TTree", Outcome::Damaged),
        (limits::TREES_MAX + 1, "TTree", Outcome::TooLarge),
    ] {
        let (layout, _) = parse(&file(count, class, KEYS));
        assert_eq!(layout.outcome(), outcome, "{count} {class}");
        assert_eq!(layout.failure.is_some(), outcome == Outcome::TooLarge, "{count} {class}");
    }
}

#[test]
fn directories_in_a_circle_end() {
    // The record of the directory lies behind the key; this one leads back to the directory of the file.
    let key_len = 26 + 3 + "TDirectory".len() + 1;
    let (layout, requests) = parse(&file(1, "TDirectory", DIRECTORY - key_len));
    assert_eq!(layout.outcome(), Outcome::TooLarge);
    assert_eq!(requests, 1 + 2 * limits::DEPTH_MAX);
}
