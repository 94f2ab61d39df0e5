//! Directory listings in both directions.

use crate::frames::frames;
use forebay_proto::limits::{DIRLIST_FRAME_LEN_MAX, DIRLIST_LINE_LEN_MAX};
use forebay_proto::response::{DirlistDecoder, DirlistEncoder, DirlistForm};
use forebay_proto::{DirlistOptions, ReplyTo, ResponseError, Status, StreamId};
use forebay_types::{DirEntry, FileKind, FileStat};

const REPLY_TO: ReplyTo = ReplyTo::direct(StreamId([1, 0]));

fn stat(size: u64) -> FileStat {
    FileStat {
        id: 7,
        kind: FileKind::File,
        size,
        mtime: 1_795_287_170,
        readable: true,
        executable: false,
        offline: false,
        cached: true,
        access: None,
        validator: None,
    }
}

fn entry(name: &str) -> DirEntry {
    DirEntry { name: name.to_owned(), stat: None, checksum: None }
}

fn encode(form: DirlistForm, entries: &[DirEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = DirlistEncoder::new(REPLY_TO, form);
    for entry in entries {
        encoder.push(entry, &mut out);
    }
    encoder.finish(&mut out);
    out
}

fn decode(bodies: &[&[u8]]) -> Result<Vec<DirEntry>, ResponseError> {
    let (mut decoder, mut entries) = (DirlistDecoder::new(), Vec::new());
    for body in bodies {
        decoder.handle_frame(body, &mut entries)?;
    }
    decoder.finish(&mut entries)?;
    Ok(entries)
}

#[test]
fn the_last_line_end_is_a_nul() {
    let out = encode(DirlistForm::Names, &[entry("a"), entry("b c")]);
    assert_eq!(frames(&out)[0].1, b"a\nb c\0");
}

#[test]
fn an_empty_listing_has_no_body_or_only_the_marker() {
    assert_eq!(frames(&encode(DirlistForm::Names, &[]))[0].1, b"");
    assert_eq!(frames(&encode(DirlistForm::Stats, &[]))[0].1, b".\n0 0 0 0\0");
    assert_eq!(decode(&[b""]), Ok(vec![]));
    assert_eq!(decode(&[b".\n0 0 0 0\0"]), Ok(vec![]));
}

#[test]
fn stats_begin_with_the_marker() {
    let entries = [DirEntry { stat: Some(stat(5000)), ..entry("small.bin") }];
    let out = encode(DirlistForm::Stats, &entries);
    let body = &frames(&out)[0].1;
    assert!(body.starts_with(b".\n0 0 0 0\nsmall.bin\n7 5000 528 1795287170 "));
    assert!(body.ends_with(b"\0"));
    assert_eq!(decode(&[body]), Ok(entries.to_vec()));
}

#[test]
fn captured_listing_with_stats() {
    let body = b".\n0 0 0 0\nsmall.bin\n42934803783286272 5000 48 1795287170 1795287198 1795287170 0644 a b\n\
                 sub\n42934803783286273 4096 51 1795287170 1795287198 1795287170 0755 a b\0";
    let entries = decode(&[body]).unwrap();
    assert_eq!(entries[0].stat.as_ref().unwrap().size, 5000);
    assert_eq!(entries[1].stat.as_ref().unwrap().kind, FileKind::Directory);
}

#[test]
fn checksums_follow_the_stat() {
    let with_checksum = DirEntry {
        stat: Some(stat(1)),
        checksum: Some(("adler32".to_owned(), "001ab8d3".to_owned())),
        ..entry("a [ b ]")
    };
    let without = DirEntry { stat: Some(stat(2)), ..entry("b") };
    let entries = [with_checksum, without];
    let out = encode(DirlistForm::Checksums, &entries);
    let body = &frames(&out)[0].1;
    assert!(body.windows(23).any(|window| window == b" * * [ adler32:001ab8d3"[..].as_ref()));
    assert!(body.ends_with(b" [ none:none ]\0"));
    assert_eq!(decode(&[body]), Ok(entries.to_vec()));
}

#[test]
fn names_that_cannot_be_encoded_are_left_out() {
    let out = encode(DirlistForm::Names, &[entry("a\nb"), entry("c"), entry("")]);
    assert_eq!(frames(&out)[0].1, b"c\0");
    let out = encode(DirlistForm::Stats, &[entry("vanished"), DirEntry { stat: Some(stat(0)), ..entry("c") }]);
    assert_eq!(decode(&[&frames(&out)[0].1]).unwrap().len(), 1);
    assert_eq!(decode(&[b"ok\n../../etc\n..\n.\n\xff\xfe\n\0"]), Ok(vec![entry("ok")]));
}

#[test]
fn long_listings_are_cut_between_entries_and_only_the_last_frame_has_a_nul() {
    let entries: Vec<DirEntry> =
        (0..5000).map(|at| DirEntry { stat: Some(stat(at)), ..entry(&format!("file-{at:06}")) }).collect();
    let out = encode(DirlistForm::Stats, &entries);
    let frames = frames(&out);
    assert!(frames.len() > 1);
    let (last, partial) = frames.split_last().unwrap();
    assert_eq!(last.0.status, Status::OK);
    assert!(last.1.ends_with(b"\0"));
    for (header, body) in partial {
        assert_eq!(header.status, Status::OKSOFAR);
        assert!(body.len() <= DIRLIST_FRAME_LEN_MAX);
        assert!(body.ends_with(b"\n") && !body.contains(&0));
    }
    let bodies: Vec<&[u8]> = frames.iter().map(|(_, body)| body.as_slice()).collect();
    assert_eq!(decode(&bodies), Ok(entries));
}

#[test]
fn a_frame_is_filled_to_its_limit_and_not_beyond() {
    let name = "n".repeat(255);
    for (fill, expected_frames) in [(DIRLIST_FRAME_LEN_MAX - 256 * 255 - 1, 1), (DIRLIST_FRAME_LEN_MAX - 256 * 255, 2)]
    {
        let mut entries = vec![entry(&name); 255];
        entries.push(entry(&"x".repeat(fill)));
        assert_eq!(frames(&encode(DirlistForm::Names, &entries)).len(), expected_frames);
    }
}

#[test]
fn frames_may_be_cut_anywhere() {
    let body = b".\n0 0 0 0\na\n1 2 16 4\nb\n1 2 16 4 5 6 0644 u g [ adler32:12 ]\0";
    let whole = decode(&[body]).unwrap();
    assert_eq!(whole[1].checksum, Some(("adler32".to_owned(), "00000012".to_owned())));
    for at in 0..body.len() {
        let (first, second) = body.split_at(at);
        assert_eq!(decode(&[first, second]).as_ref(), Ok(&whole), "cut at {at}");
    }
    let bytes: Vec<&[u8]> = body.chunks(1).collect();
    assert_eq!(decode(&bytes), Ok(whole));
}

#[test]
fn a_server_without_stats_lists_names() {
    assert_eq!(decode(&[b"a\nb"]), Ok(vec![entry("a"), entry("b")]));
}

#[test]
fn broken_listings_are_errors() {
    assert_eq!(decode(&[b".\n0 0 0 0\na\nno stat\n"]), Err(ResponseError::Malformed { what: "stat text" }));
    assert!(matches!(decode(&[b".\n0 0 0 0\na\0"]), Err(ResponseError::Truncated { .. })));
    assert!(decode(&[&vec![b'a'; DIRLIST_LINE_LEN_MAX]]).is_ok());
    assert!(matches!(decode(&[&vec![b'a'; DIRLIST_LINE_LEN_MAX + 1]]), Err(ResponseError::TooLong { .. })));
}

#[test]
fn options_choose_the_form() {
    for (bits, form) in [
        (0, DirlistForm::Names),
        (1, DirlistForm::Names),
        (2, DirlistForm::Stats),
        (4, DirlistForm::Checksums),
        (6, DirlistForm::Checksums),
        (8, DirlistForm::Stats),
    ] {
        assert_eq!(DirlistForm::asked_by(DirlistOptions(bits)), form);
    }
}
