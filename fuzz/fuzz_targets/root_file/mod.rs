//! For the targets of ROOT files: parsing, and a file around a record.

use forebay_structure::{Layout, Parser};

/// Length of the key in front of the record, as uproot writes it for `dir/Events`; seeds refer to it.
const KEY_LEN: usize = 48;

/// Position of the record: behind header, directory and list of keys.
const RECORD: usize = 256;

/// Parses a file, also with a tail that is known from the start, and checks that all that is known of it lies in it.
pub fn parse(file: &[u8]) -> Layout {
    parse_with(file, Some(file.len() / 2));
    parse_with(file, None)
}

fn parse_with(file: &[u8], tail: Option<usize>) -> Layout {
    let len = file.len() as u64;
    let mut parser = Parser::new(len);
    let mut requests = 0;
    while let Some(range) = parser.poll_wanted() {
        assert!(range.end() <= len);
        assert!(requests < 20_000);
        requests += 1;
        parser.handle_bytes(&file[range.start() as usize..range.end() as usize]);
        if let Some(start) = tail.filter(|_| requests == 1) {
            parser.handle_tail(start as u64, &file[start..]);
        }
    }
    let layout = parser.into_layout();
    for tree in &layout.trees {
        assert!(tree.items.is_sorted_by_key(|item| item.offset()));
        for item in &tree.items {
            assert!(item.offset() + item.len_bytes() <= len);
            assert!(item.column() < tree.columns.len());
        }
    }
    layout
}

/// A file whose only key has this class and object, with `rest` behind it.
#[allow(dead_code, reason = "the target of whole files does not need it")]
pub fn around(class: &str, object: &[u8], rest: &[u8]) -> Vec<u8> {
    let key = |len: usize, key_len: usize, object_len: usize, position: usize, class: &str, name: &str| {
        let mut key = Vec::new();
        key.extend((len as u32).to_be_bytes());
        key.extend(4_u16.to_be_bytes());
        key.extend((object_len as u32).to_be_bytes());
        key.extend([0; 4]);
        key.extend((key_len as u16).to_be_bytes());
        key.extend(1_u16.to_be_bytes());
        key.extend((position as u32).to_be_bytes());
        key.extend([0; 4]);
        for text in [class, name, ""] {
            key.push(text.len() as u8);
            key.extend(text.as_bytes());
        }
        key
    };
    let tree = key(KEY_LEN + object.len(), KEY_LEN, object.len(), RECORD, class, "Events");
    let own = key(0, 29, 0, 0, "", "");
    let list = [own.as_slice(), &1_u32.to_be_bytes(), &tree].concat();
    let mut file = b"root\0\0\xf4\x24\0\0\0\x64".to_vec();
    file.resize(100, 0);
    file.extend(5_u16.to_be_bytes());
    file.extend([0; 8]);
    file.extend((list.len() as u32).to_be_bytes());
    file.extend([0; 12]);
    file.extend(142_u32.to_be_bytes());
    file.resize(142, 0);
    file.extend(list);
    file.resize(RECORD + KEY_LEN, 0);
    file.extend(object);
    file.extend(rest);
    file
}

/// Position of what follows an object of this length.
#[allow(dead_code, reason = "one of the targets needs it")]
pub const fn behind(object_len: usize) -> usize {
    RECORD + KEY_LEN + object_len
}
