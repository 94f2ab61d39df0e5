//! Whom `forebay serve` runs as, and what it keeps of what it could do. Run by root these tests show more than by others; they
//! hold for both.

use crate::program::{Served, run, stderr};
use rustix::process::{getegid, geteuid};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};
use tempfile::TempDir;

/// A user without privileges, as numbers.
const NOBODY_SPECIAL: u32 = 4711;

/// chown, dac_override, dac_read_search, fowner.
const WAY_WITH_FILES: u64 = 0b1111;

fn export(scratch: &TempDir, user: &str, mode: u32) -> std::path::PathBuf {
    let data = scratch.path().join("data");
    fs::create_dir_all(&data).unwrap();
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(mode)).unwrap();
    let file = scratch.path().join("forebay.toml");
    let user = if user.is_empty() { String::new() } else { format!("user = \"{user}\"\n") };
    let export = format!("[[export]]\ndirectory = \"{}\"\n", data.display());
    fs::write(&file, format!("[server]\nlisten = [\"127.0.0.1:0\"]\n{user}{export}")).unwrap();
    file
}

fn serve(file: &Path) -> Served {
    Served::start(["--config".as_ref(), file.as_os_str()])
}

/// The values of a line of the kernel's account of a process, of each of its threads.
fn status(served: &Served, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", served.pid())).unwrap();
    let value = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name).and_then(|rest| rest.strip_prefix(':')));
        line.unwrap().trim().to_owned()
    };
    tasks.map(|task| value(task.unwrap())).collect()
}

fn assert_all(served: &Served, name: &str, expected: &str) {
    for value in status(served, name) {
        assert_eq!(value, expected, "{name}");
    }
}

#[test]
fn nothing_is_kept_but_roots_way_with_files() {
    let scratch = tempfile::tempdir().unwrap();
    let served = serve(&export(&scratch, "", 0o755));
    assert_all(&served, "NoNewPrivs", "1");
    for name in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        for value in status(&served, name) {
            let held = u64::from_str_radix(&value, 16).unwrap();
            let may_be_held = if geteuid().is_root() { WAY_WITH_FILES } else { 0 };
            assert_eq!(held & !may_be_held, 0, "{name}");
        }
    }
}

#[test]
fn root_becomes_the_user_of_the_configuration_in_every_thread() {
    let scratch = tempfile::tempdir().unwrap();
    let (user, group) = match geteuid() {
        own if own.is_root() => (NOBODY_SPECIAL, NOBODY_SPECIAL + 1),
        own => (own.as_raw(), getegid().as_raw()),
    };
    let served = serve(&export(&scratch, &format!("{user}:{group}"), 0o755));
    assert_all(&served, "Uid", &[user.to_string().as_str(); 4].join("\t"));
    assert_all(&served, "Gid", &[group.to_string().as_str(); 4].join("\t"));
    for name in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        assert_all(&served, name, "0000000000000000");
    }
    if geteuid().is_root() {
        assert_all(&served, "Groups", "");
        assert_all(&served, "CapBnd", "0000000000000000");
    }
}

#[test]
fn what_the_user_cannot_use_is_told_at_the_start() {
    let scratch = tempfile::tempdir().unwrap();
    let user = format!("{NOBODY_SPECIAL}:{NOBODY_SPECIAL}");
    let file = export(&scratch, &user, 0o700);
    let output = run(["serve".as_ref(), "--config".as_ref(), file.as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    let expected = if geteuid().is_root() { "cannot be exported" } else { "start as root" };
    assert!(error.contains("forebay.toml:") && error.contains(expected), "{error}");
}

#[test]
fn root_does_not_write_to_the_store_of_another_user() {
    let scratch = tempfile::tempdir().unwrap();
    let store = scratch.path().join("store");
    fs::create_dir(&store).unwrap();
    if !geteuid().is_root() {
        return;
    }
    fs::create_dir(store.join("lost+found")).unwrap();
    let data = store.join("atlas");
    fs::create_dir(&data).unwrap();
    for directory in [&store, &data] {
        chown(directory, Some(NOBODY_SPECIAL), Some(NOBODY_SPECIAL)).unwrap();
    }
    let user = format!("{NOBODY_SPECIAL}:{NOBODY_SPECIAL}");
    let with_store = |user: &str| {
        let file = export(&scratch, user, 0o755);
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{text}[store]\npath = \"{}\"\n", store.display())).unwrap();
        file
    };
    let output = run(["serve".as_ref(), "--config".as_ref(), with_store("").as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    let remedy = format!("set server.user = \"{user}\"");
    assert!(stderr(&output).contains(&remedy), "{}", stderr(&output));
    assert!(!store.join(".forebay").exists(), "nothing is written before");
    let served = serve(&with_store(&user));
    assert_eq!(fs::metadata(store.join(".forebay/lock")).unwrap().uid(), NOBODY_SPECIAL);
    drop(served);
    fs::remove_dir(&data).unwrap();
    fs::remove_dir_all(store.join(".forebay")).unwrap();
    drop(serve(&with_store("")));
    assert_eq!(fs::metadata(store.join(".forebay/lock")).unwrap().uid(), 0, "an empty directory is used as it is");
}

#[test]
fn a_user_that_is_none_is_refused_where_it_stands() {
    let scratch = tempfile::tempdir().unwrap();
    let file = export(&scratch, "no such user", 0o755);
    let output = run(["check-config".as_ref(), file.as_os_str()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("forebay.toml:3:8: there is no user `no such user`"), "{}", stderr(&output));
}
