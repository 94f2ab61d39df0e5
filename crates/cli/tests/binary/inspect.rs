//! `forebay inspect` on records of every version, made by hand after the layout of XCache.

use crate::program::{run, stderr, stdout};
use md5::{Digest, Md5};
use serde_json::Value;
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// Five blocks of 64 KiB, of which 0, 2 and 4 are present.
const BLOCK_SIZE: i64 = 65_536;
const FILE_SIZE: i64 = 300_000;
const BITS: u8 = 0x15;
const CREATED: i64 = 1_700_000_000;

fn access(attached: i64, detached: i64) -> Vec<u8> {
    let mut record = [attached.to_le_bytes(), detached.to_le_bytes()].concat();
    for field in [1_i32, 50, 0, 0] {
        record.extend(field.to_le_bytes());
    }
    for bytes in [10_u64, 20, 30] {
        record.extend(bytes.to_le_bytes());
    }
    record
}

fn version_4() -> Vec<u8> {
    let mut header = Vec::new();
    for field in [BLOCK_SIZE, FILE_SIZE, CREATED, CREATED + 5] {
        header.extend(field.to_le_bytes());
    }
    header.extend(2_u64.to_le_bytes());
    header.extend(2_u32.to_le_bytes());
    header.extend(2_i32.to_le_bytes());
    let body = [vec![BITS], access(CREATED, CREATED + 50), access(CREATED + 100, 0)].concat();
    let sums = [crc32c::crc32c(&header).to_le_bytes(), crc32c::crc32c(&body).to_le_bytes()];
    [&4_i32.to_le_bytes()[..], &header, &sums[0], &body, &sums[1]].concat()
}

fn old_version(version: i32) -> Vec<u8> {
    let mut image = version.to_le_bytes().to_vec();
    image.extend(BLOCK_SIZE.to_le_bytes());
    image.extend(FILE_SIZE.to_le_bytes());
    image.push(BITS);
    image.extend(Md5::digest([BITS]));
    image.extend(CREATED.to_le_bytes());
    image.extend(1_u64.to_le_bytes());
    let record = access(CREATED, CREATED + 50);
    match version {
        3 => image.extend(record),
        // Version 2 has no counts between times and bytes.
        _ => image.extend([&record[..16], &record[32..]].concat()),
    }
    image
}

fn store(scratch: &TempDir, image: &[u8]) -> PathBuf {
    let data = scratch.path().join("a.root");
    fs::write(&data, vec![0; 300_000]).unwrap();
    fs::write(scratch.path().join("a.root.cinfo"), image).unwrap();
    data
}

#[test]
fn records_of_every_version_are_shown() {
    for (version, image) in [(2, old_version(2)), (3, old_version(3)), (4, version_4())] {
        let scratch = tempfile::tempdir().unwrap();
        let data = store(&scratch, &image);
        let output = run(["inspect".as_ref(), data.as_os_str()]);
        assert!(output.status.success(), "{version}: {}", stderr(&output));
        let text = stdout(&output);
        for part in [
            &format!("version    {version}, created 2023-11-14 22:13:20 UTC"),
            "file size  300000 (292.9 KiB)",
            "data file  300000 bytes long",
            "blocks     3 of 5 of 64.0 KiB",
            "state      incomplete (60.0%, 164.9 KiB present)",
            "[#.#.#]",
            "2023-11-14 22:13:20  2023-11-14 22:14:10    0:00:50      1",
        ] {
            assert!(text.contains(part), "{part} not in version {version}:\n{text}");
        }
    }
}

#[test]
fn json_has_the_keys_of_xrdpfc_print() {
    let scratch = tempfile::tempdir().unwrap();
    let data = store(&scratch, &version_4());
    let cinfo = data.with_extension("root.cinfo");
    let output = run(["inspect".as_ref(), "--json".as_ref(), cinfo.as_os_str()]);
    let json: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let expected = serde_json::json!({
        "file": cinfo,
        "version": 4,
        "created": "Tue Nov 14 22:13:20 2023",
        "no-cksum-time": "Tue Nov 14 22:13:25 2023",
        "cksum": "net",
        "file_size": 300_000,
        "buffer_size": 65_536,
        "n_blocks": 5,
        "state_complete": "incomplete",
        "state_percentage": 60.0,
        "block_array": [1, 0, 1, 0, 1],
        "n_acc_total": 2,
        "accesses": [
            {"record": 1, "attach": "231114:221320", "detach": "231114:221410", "duration": "0:00:50",
             "n_ios": 1, "n_mrg": 0, "B_hit": 10, "B_miss": 20, "B_bypass": 30},
            {"record": 2, "attach": "231114:221500", "detach": "------:------", "duration": "0:00:50",
             "n_ios": 1, "n_mrg": 0, "B_hit": 10, "B_miss": 20, "B_bypass": 30},
        ],
    });
    assert_eq!(json, expected);
}

#[test]
fn damaged_and_missing_records_are_told() {
    let scratch = tempfile::tempdir().unwrap();
    let mut image = version_4();
    image[20] ^= 1;
    let data = store(&scratch, &image);
    let output = run(["inspect".as_ref(), data.as_os_str()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("a.root.cinfo is not a valid cinfo: wrong checksum"), "{}", stderr(&output));
    let output = run(["inspect", "/nonexistent/a.root"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("opening /nonexistent/a.root.cinfo"), "{}", stderr(&output));
}
