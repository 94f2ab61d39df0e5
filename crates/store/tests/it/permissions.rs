//! Permissions of what a store creates. A test program of its own: it changes the umask, which all threads share.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_cache::{CacheKey, ChecksumState, Cinfo, Geometry};
use forebay_store::{Disk, LocalDisk, NewRecord, Permissions, VolumeId};
use forebay_types::Lfn;
use rustix::{
    fs::Mode,
    process::{getegid, geteuid, umask},
};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Creates an entry, runs `before`, and replaces its record.
fn create_then(disk: &LocalDisk, path: &str, before: impl Fn()) {
    let key = CacheKey::fixed(&Lfn::parse(path).unwrap()).unwrap();
    let geometry = Geometry::new(4096, 100).unwrap();
    let cinfo = Cinfo::new(geometry, 0, ChecksumState::Net);
    let entry = disk.create_entry(&key, cinfo.clone(), None).unwrap();
    let record = NewRecord { key: &key, data: &*entry.data, cinfo: &cinfo, origin: None, is_first: false };
    before();
    // A record that replaces the first one is a new file, too.
    for written in disk.write_cinfos(&[record]) {
        written.unwrap();
    }
}

fn create(disk: &LocalDisk, path: &str) {
    create_then(disk, path, || ());
}

/// Owner, group and mode.
fn ownership(path: &Path) -> (u32, u32, u32) {
    let metadata = fs::metadata(path).unwrap();
    (metadata.uid(), metadata.gid(), metadata.mode() & 0o7777)
}

#[test]
fn a_replaced_record_keeps_its_owner_and_a_new_one_has_that_of_the_data() {
    let scratch = tempfile::tempdir().unwrap();
    let disk = LocalDisk::open(scratch.path()).unwrap();
    let (data, record) = (scratch.path().join("file"), scratch.path().join("file.cinfo"));
    let (user, group) = if geteuid().is_root() { (4711, 4712) } else { (geteuid().as_raw(), getegid().as_raw()) };
    let give = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        chown(path, Some(user), Some(group)).unwrap();
    };
    create_then(&disk, "/file", || give(&record, 0o664));
    assert_eq!(ownership(&record), (user, group, 0o664), "of the record");
    create_then(&disk, "/file", || {
        give(&data, 0o640);
        fs::remove_file(&record).unwrap();
    });
    assert_eq!(ownership(&record), (user, group, 0o640), "of the data");
}

#[test]
fn new_files_get_their_permissions_whatever_the_umask_and_old_ones_keep_theirs() {
    let scratch = tempfile::tempdir().unwrap();
    let root = scratch.path().join("store");
    let group = if geteuid().is_root() { 4711 } else { getegid().as_raw() };
    for (mask, permissions, directory) in [
        (0o022, Permissions::default(), "/a"),
        (0o000, Permissions { file_mode: 0o640, directory_mode: 0o750, group: None }, "/b"),
        (0o077, Permissions { file_mode: 0o640, directory_mode: 0o750, group: Some(group) }, "/c"),
        (0o777, Permissions { file_mode: 0o644, directory_mode: 0o755, group: None }, "/d"),
    ] {
        umask(Mode::from_raw_mode(mask));
        let expected_group = permissions.group.unwrap_or_else(|| getegid().as_raw());
        let disk = LocalDisk::open_volume(&root, VolumeId(0), permissions).unwrap();
        create(&disk, &format!("{directory}/sub/file"));
        for folder in [directory.to_owned(), format!("{directory}/sub")] {
            let path = root.join(&folder[1..]);
            assert_eq!(mode(&path), permissions.directory_mode, "{folder}");
            assert_eq!(fs::metadata(&path).unwrap().gid(), expected_group, "{folder}");
        }
        for file in ["file", "file.cinfo"] {
            let path = root.join(&directory[1..]).join("sub").join(file);
            assert_eq!(mode(&path), permissions.file_mode, "{directory} {file}");
            assert_eq!(fs::metadata(&path).unwrap().gid(), expected_group, "{file}");
        }
    }
    umask(Mode::from_raw_mode(0o022));
    assert_eq!(mode(&root), 0o700, "as it was created");
    assert_eq!(mode(&root.join(".forebay")), 0o700);
    assert_eq!(mode(&root.join("a/sub/file")), 0o600);

    // Files of another cache stay as they are.
    fs::create_dir(root.join("old")).unwrap();
    fs::set_permissions(root.join("old"), fs::Permissions::from_mode(0o711)).unwrap();
    let disk = LocalDisk::open(&root).unwrap();
    create(&disk, "/old/file");
    assert_eq!(mode(&root.join("old")), 0o711);
}
