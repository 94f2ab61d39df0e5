//! Files written by uproot: the tables are those that uproot finds. And the same files, damaged in every way.

use forebay_structure::{Layout, Outcome, Parser, Refusal, TreeKind, inflate, limits};
use proptest::prelude::*;

/// The files with the columns, ranges and clusters that uproot finds in them.
const FILES: [(&str, &[u8], &str); 6] = [
    ("none", include_bytes!("../golden/tree-none.root"), include_str!("../golden/tree-none.expected")),
    ("zlib", include_bytes!("../golden/tree-zlib.root"), include_str!("../golden/tree-zlib.expected")),
    ("lzma", include_bytes!("../golden/tree-lzma.root"), include_str!("../golden/tree-lzma.expected")),
    ("lz4", include_bytes!("../golden/tree-lz4.root"), include_str!("../golden/tree-lz4.expected")),
    ("zstd", include_bytes!("../golden/tree-zstd.root"), include_str!("../golden/tree-zstd.expected")),
    ("ntuple", include_bytes!("../golden/ntuple.root"), include_str!("../golden/ntuple.expected")),
];

/// Parses a file in memory; also returns the number of requests.
pub(crate) fn parse(file: &[u8]) -> (Layout, usize) {
    let mut parser = Parser::new(file.len() as u64);
    let mut requests = 0;
    while let Some(range) = parser.poll_wanted() {
        let [start, end] = [range.start(), range.end()].map(|at| usize::try_from(at).expect("a small file"));
        parser.handle_bytes(file.get(start..end).expect("ranges lie in the file"));
        requests += 1;
    }
    (parser.into_layout(), requests)
}

#[test]
fn tables_are_those_of_uproot() {
    for (name, file, expected) in FILES {
        let (layout, requests) = parse(file);
        assert_eq!((layout.outcome(), layout.failure, &layout.refused), (Outcome::Parsed, None, &vec![]), "{name}");
        let [tree] = layout.trees.as_slice() else { panic!("{name}: {} trees", layout.trees.len()) };
        let is_ntuple = name == "ntuple";
        let (tree_name, kind) = if is_ntuple { ("Events", TreeKind::RNTuple) } else { ("dir/Events", TreeKind::TTree) };
        assert_eq!((tree.name.as_str(), tree.kind, tree.entries, tree.clusters), (tree_name, kind, 120, 3), "{name}");
        let mut expected: Vec<(u64, String)> =
            expected.lines().map(|line| (line.split(' ').next().unwrap().parse().unwrap(), line.to_owned())).collect();
        expected.sort();
        let found = tree.items.iter().map(|item| {
            let (offset, column) = (item.offset(), &tree.columns[item.column()]);
            (offset, format!("{offset} {} {column} {}", item.len_bytes(), item.cluster()))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
        // Head, directory and key list of the file and of `dir`, record; or anchor, header, footer and page lists.
        assert!(requests <= 9, "{name}: {requests} requests");
    }
}

/// Head and tail of a file of 37 MB that ROOT has written: 48 columns in 28 clusters.
const HEAD: &[u8] = include_bytes!("../golden/flat.head");
const TAIL: &[u8] = include_bytes!("../golden/flat.tail");
const SIZE: u64 = 37_121_915;
const TAIL_START: u64 = SIZE - TAIL.len() as u64;

#[test]
fn a_tree_in_the_tail_is_found_before_the_list_of_keys() {
    let mut parser = Parser::new(SIZE);
    parser.handle_tail(TAIL_START, TAIL);
    assert!(!parser.has_parsed(), "what the file is shows its head");
    parser.handle_bytes(HEAD);
    parser.handle_tail(TAIL_START, TAIL);
    let trees = parser.take_trees();
    assert_eq!(trees.iter().map(|tree| (tree.name.as_str(), tree.columns.len())).collect::<Vec<_>>(), [("Events", 48)]);
    assert!(parser.early_start().is_some_and(|start| start >= TAIL_START));
    let mut requests = 0;
    while let Some(range) = parser.poll_wanted() {
        let (from, offset) = if range.start() < HEAD.len() as u64 { (HEAD, 0) } else { (TAIL, TAIL_START) };
        let [start, end] = [range.start(), range.end()].map(|at| usize::try_from(at - offset).unwrap());
        parser.handle_bytes(&from[start..end]);
        requests += 1;
    }
    assert_eq!(requests, 2, "the first directory and its keys: its tree is known");
    assert!(parser.has_parsed());
    assert_eq!(parser.into_layout(), Layout::default());
}

#[test]
fn a_record_at_another_place_than_it_states_is_none() {
    for (offset, bytes) in [(TAIL_START - 1, TAIL), (TAIL_START, &TAIL[..1000])] {
        let mut parser = Parser::new(SIZE);
        parser.handle_bytes(HEAD);
        parser.handle_tail(offset, bytes);
        assert_eq!(parser.take_trees(), vec![]);
    }
}

/// The first two bytes of each basket of a file as stored, and its inflated data, in order of columns.
fn baskets(file: &[u8], expected: &str) -> Vec<([u8; 2], Vec<u8>)> {
    let read = |line: &str| {
        let mut words = line.split(' ').map(|word| word.parse::<usize>().ok());
        let (offset, len) = (words.next()??, words.next()??);
        let basket = file.get(offset..offset + len)?;
        let object_len = u32::from_be_bytes(basket.get(6..10)?.try_into().ok()?);
        let key_len = u16::from_be_bytes(basket.get(14..16)?.try_into().ok()?);
        let stored = basket.get(usize::from(key_len)..)?;
        Some((*stored.first_chunk()?, inflate(stored, object_len.into()).expect("a whole basket").into_owned()))
    };
    expected.lines().map(|line| read(line).expect("a basket in the file")).collect()
}

#[test]
fn all_codecs_inflate_to_the_same() {
    // uproot compresses baskets but not the records of trees; those of ROOT are in the black-box tests.
    let data = |baskets: &[([u8; 2], Vec<u8>)]| baskets.iter().map(|(_, data)| data.clone()).collect::<Vec<_>>();
    let plain = baskets(FILES[0].1, FILES[0].2);
    assert_eq!(plain.len(), 9);
    for ((name, file, expected), kind) in FILES[1..5].iter().zip([b"ZL", b"XZ", b"L4", b"ZS"]) {
        let compressed = baskets(file, expected);
        assert!(compressed.iter().any(|(stored, _)| stored == kind), "{name}");
        assert_eq!(data(&compressed), data(&plain), "{name}");
    }
}

#[test]
fn files_without_trees_have_no_structure() {
    for file in [&b""[..], b"root", b"PK\x03\x04", &[0; 4096]] {
        let (layout, _) = parse(file);
        assert!(layout.trees.is_empty());
        assert!(matches!(layout.outcome(), Outcome::None | Outcome::Damaged), "{layout:?}");
    }
}

#[test]
fn truncated_files_have_no_structure() {
    for (name, file, _) in FILES {
        for len in (0..file.len()).step_by(97) {
            let (layout, _) = parse(&file[..len]);
            assert!(
                layout.trees.iter().all(|tree| tree.items.iter().all(|item| item.offset() < len as u64)),
                "{name} {len}"
            );
        }
    }
}

#[test]
fn an_unknown_version_is_told_from_damage() {
    let (_, file, _) = FILES[0];
    let mut file = file.to_vec();
    let class = b"\xff\xff\xff\xffTBranch\0";
    let at = file.windows(class.len()).position(|window| window == class).unwrap();
    // Behind the class: the count of bytes, and the version.
    file[at + class.len() + 4..][..2].copy_from_slice(&14_u16.to_be_bytes());
    let (layout, _) = parse(&file);
    assert_eq!(layout.outcome(), Outcome::UnknownVersion, "{layout:?}");
}

#[test]
fn sizes_are_checked_before_memory_is_reserved() {
    let chunk = |len: u32| [&b"ZL\x08\x02\0\0"[..], &len.to_le_bytes()[..3], b"xx"].concat();
    let too_large = limits::INFLATED_LEN_MAX + 1;
    assert!(matches!(inflate(&chunk(100), too_large), Err(Refusal::TooLarge(_))));
    // One chunk cannot be 64 MiB long.
    assert!(matches!(inflate(&chunk(0xff_ffff), limits::INFLATED_LEN_MAX), Err(Refusal::Damaged(_))));
    assert!(matches!(inflate(&chunk(0), 5), Err(Refusal::Damaged(_))));
    assert!(matches!(inflate(b"QQ\x08\x02\0\0\x05\0\0xx", 5), Err(Refusal::UnknownVersion(_))));
}

#[test]
fn old_deflate_chunks_are_inflated() {
    // A stored block of raw deflate.
    let stored = b"CS\x08\x0a\0\0\x05\0\0\x01\x05\0\xfa\xffhello";
    assert_eq!(&*inflate(stored, 5).unwrap(), b"hello");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Damage ends in a refusal or in a table of ranges inside of the file.
    #[test]
    fn damage_never_leads_outside_of_the_file(
        which in 0..FILES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut file = FILES[which].1.to_vec();
        for (at, byte) in damage {
            let at = at.index(file.len());
            file[at] = byte;
        }
        let (layout, requests) = parse(&file);
        prop_assert!(requests < 200);
        for tree in &layout.trees {
            for item in &tree.items {
                prop_assert!(item.offset() + item.len_bytes() <= file.len() as u64);
                prop_assert!(item.column() < tree.columns.len());
            }
        }
    }
}
