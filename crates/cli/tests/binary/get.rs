//! `forebay get`, `ls` and `stat` against our own server.

use crate::program::{Served, command, run, stderr, stdout};
use std::{
    fs::{self, File},
    os::fd::AsFd,
    path::Path,
};

/// Longer than several requests of the downloader.
const SIZE: usize = (9 << 20) + 123;

fn content() -> Vec<u8> {
    (0_u32..).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).take(SIZE).collect()
}

/// A server of a directory that has `a.bin` and `d/b c`.
fn served() -> (tempfile::TempDir, Served) {
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("a.bin"), content()).unwrap();
    fs::create_dir(data.path().join("d")).unwrap();
    fs::write(data.path().join("d/b c"), "hello").unwrap();
    let served = Served::export(data.path());
    (data, served)
}

fn get(served: &Served, output: &Path, more: &[&str]) -> std::process::Output {
    let url = format!("{}//a.bin", served.url);
    command(["get", &url, "-o"]).arg(output).args(more).output().unwrap()
}

/// Sets the time of last change, so that a partial file is older or newer than its origin.
fn set_mtime(path: &Path, seconds: i64) {
    let time = rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times = rustix::fs::Timestamps { last_access: time, last_modification: time };
    rustix::fs::futimens(File::options().write(true).open(path).unwrap().as_fd(), &times).unwrap();
}

#[test]
fn a_file_arrives_verified_and_is_not_replaced_unasked() {
    let (_data, served) = served();
    let target = tempfile::tempdir().unwrap();
    let output = get(&served, target.path(), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("adler32") && stderr(&output).contains("verified"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("not verified"), "{}", stderr(&output));
    let file = target.path().join("a.bin");
    assert!(fs::read(&file).unwrap() == content());
    assert!(!target.path().join("a.bin.part").exists());

    let again = get(&served, &file, &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("exists; use --force"), "{}", stderr(&again));
    fs::write(&file, "old").unwrap();
    let forced = get(&served, &file, &["--force", "--quiet"]);
    assert!(forced.status.success());
    assert_eq!(stderr(&forced), "");
    assert!(fs::read(&file).unwrap() == content());
}

#[test]
fn standard_output_gets_the_bytes_alone() {
    let (_data, served) = served();
    let output = get(&served, Path::new("-"), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(output.stdout == content());
}

#[test]
fn a_partial_file_is_completed() {
    let (data, served) = served();
    set_mtime(&data.path().join("a.bin"), 1_600_000_000);
    let target = tempfile::tempdir().unwrap();
    let part = target.path().join("x.part");
    fs::write(&part, &content()[..5_000_000]).unwrap();
    let output = get(&served, &target.path().join("x"), &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("resumed"), "{}", stderr(&output));
    assert!(fs::read(target.path().join("x")).unwrap() == content());
}

#[test]
fn a_partial_file_that_is_wrong_is_begun_anew() {
    let (data, served) = served();
    set_mtime(&data.path().join("a.bin"), 1_600_000_000);
    let mut wrong_tail = content()[..5_000_000].to_vec();
    wrong_tail[4_999_999] ^= 1;
    let mut wrong_head = content()[..5_000_000].to_vec();
    wrong_head[0] ^= 1;
    let too_long = vec![0; SIZE + 1];
    for wrong in [wrong_tail, wrong_head, too_long] {
        let target = tempfile::tempdir().unwrap();
        fs::write(target.path().join("x.part"), wrong).unwrap();
        let output = get(&served, &target.path().join("x"), &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(fs::read(target.path().join("x")).unwrap() == content());
    }
    // What was written before the origin's last change is not trusted at all.
    let target = tempfile::tempdir().unwrap();
    fs::write(target.path().join("x.part"), &content()[..5_000_000]).unwrap();
    set_mtime(&target.path().join("x.part"), 1_500_000_000);
    let output = get(&served, &target.path().join("x"), &[]);
    assert!(output.status.success() && !stderr(&output).contains("resumed"), "{}", stderr(&output));
}

#[test]
fn directories_are_listed_and_files_described() {
    let (data, served) = served();
    set_mtime(&data.path().join("a.bin"), 1_600_000_000);
    let list = |path: &str, flags: &[&str]| {
        stdout(&command(["ls", &format!("{}/{path}", served.url)]).args(flags).output().unwrap())
    };
    assert_eq!(list("/", &[]), "a.bin\nd\n");
    assert_eq!(list("/d", &[]), "b c\n");
    assert_eq!(list("/a.bin", &[]), "a.bin\n");
    let long = list("/", &["-l"]);
    assert!(long.starts_with(&format!("-r {SIZE} 2020-09-13 12:26:40 a.bin\ndr ")), "{long}");
    let stat = stdout(&run(["stat", &format!("{}//d/b c", served.url)]));
    assert!(stat.contains("path      /d/b c\nkind      file\nsize      5 (5 B)\n"), "{stat}");
}

#[test]
fn what_is_not_there_is_told() {
    let (_data, served) = served();
    let missing = format!("{}//nothing", served.url);
    for args in [["get", &missing], ["ls", &missing], ["stat", &missing]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("/nothing"), "{}", stderr(&output));
    }
    for args in [["get", "ftp://h/f"], ["ls", "http://h"], ["stat", "root://h"]] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("root://HOST:PORT//path"), "{}", stderr(&output));
    }
}
