//! A survey distinguishes good entries from bad ones and changes nothing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use forebay_cache::{BlockSet, ChecksumState, Cinfo, Geometry};
use forebay_store::{Defect, EXAMPLES_MAX, KINDS_MAX, User, survey};
use forebay_types::BlockIndex;
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
};
use tempfile::TempDir;

const BLOCK: u64 = 4096;

/// The record of a file of three blocks and a half, of which the first ones are there.
fn record(present: u64, block_size: u64) -> Vec<u8> {
    let geometry = Geometry::new(block_size, 3 * block_size + block_size / 2).unwrap();
    let mut cinfo = Cinfo::new(geometry, 1_700_000_000, ChecksumState::Net);
    let mut blocks = BlockSet::new(geometry.block_count());
    (0..present).for_each(|index| {
        blocks.insert(BlockIndex(index));
    });
    cinfo.blocks = blocks;
    let mut bytes = Vec::new();
    cinfo.encode(&mut bytes);
    bytes
}

/// Writes an entry; returns the path of its data.
fn entry(root: &Path, name: &str, present: u64, block_size: u64) -> PathBuf {
    let data = root.join(name);
    fs::create_dir_all(data.parent().unwrap()).unwrap();
    let len = if present == 4 { 3 * block_size + block_size / 2 } else { present * block_size };
    fs::write(&data, vec![7; usize::try_from(len).unwrap()]).unwrap();
    fs::write(root.join(format!("{name}.cinfo")), record(present, block_size)).unwrap();
    data
}

#[test]
fn good_entries_are_counted_and_summed_up() {
    let root = TempDir::new().unwrap();
    entry(root.path(), "store/whole.root", 4, BLOCK);
    entry(root.path(), "store/deep/part.root", 2, BLOCK);
    entry(root.path(), "root:/origin.example:1094/store/a", 0, 2 * BLOCK);
    fs::create_dir_all(root.path().join("pfc-stats")).unwrap();
    fs::write(root.path().join("pfc-stats/DirStat.json"), "{}").unwrap();
    fs::create_dir_all(root.path().join(".xrdt/store")).unwrap();
    let mut told = 0;
    let account = survey(root.path(), None, &mut |_| told += 1).unwrap();
    assert_eq!((account.good, account.complete, account.records, account.linked), (3, 1, 3, 0));
    assert_eq!(account.present_bytes, 3 * BLOCK + BLOCK / 2 + 2 * BLOCK);
    assert_eq!(account.allocated_bytes % 512, 0);
    assert_eq!(account.directories, 6);
    assert_eq!(account.versions.into_iter().collect::<Vec<_>>(), [(4, 3)]);
    assert_eq!(account.block_sizes.into_iter().collect::<Vec<_>>(), [(Some(BLOCK), 2), (Some(2 * BLOCK), 1)]);
    assert_eq!(account.owners.values().sum::<u64>(), 3);
    assert!(account.has_page_checksums);
    assert!(account.last_change > 1_700_000_000);
    assert!(account.defects.is_empty());
    assert!(told >= 8);
}

#[test]
fn every_defect_is_reported_with_its_path() {
    let root = TempDir::new().unwrap();
    let path = |name: &str| root.path().join(name);
    for name in ["truncated", "checksum", "version", "numbers", "missing", "short"] {
        entry(root.path(), name, 4, BLOCK);
    }
    let good = record(4, BLOCK);
    fs::write(path("truncated.cinfo"), &good[..40]).unwrap();
    fs::write(path("checksum.cinfo"), [&good[..57], &[good[57] ^ 1], &good[58..]].concat()).unwrap();
    fs::write(path("version.cinfo"), [&[9], &good[1..]].concat()).unwrap();
    let negative = [&3_i32.to_le_bytes()[..], &(-1_i64).to_le_bytes(), &5_i64.to_le_bytes()].concat();
    fs::write(path("numbers.cinfo"), negative).unwrap();
    fs::remove_file(path("missing")).unwrap();
    fs::write(path("short"), [0; 100]).unwrap();
    fs::write(path("alone"), "x").unwrap();
    symlink("/nowhere/data/00/1234%", path("dangling.cinfo")).unwrap();
    symlink("/etc/passwd", path("foreign.cinfo")).unwrap();
    drop(std::os::unix::net::UnixListener::bind(path("socket")).unwrap());
    fs::write(path(".cinfo"), &good).unwrap();

    let account = survey(root.path(), None, &mut |_| ()).unwrap();
    let told: Vec<_> = account.defects.iter().map(|(defect, finding)| (*defect, finding.examples.join(","))).collect();
    let expected = [
        (Defect::CinfoTruncated, "truncated.cinfo"),
        (Defect::CinfoChecksum, "checksum.cinfo"),
        (Defect::CinfoVersion, "version.cinfo"),
        (Defect::CinfoNumbers, "numbers.cinfo"),
        (Defect::DataMissing, "missing.cinfo"),
        (Defect::DataShort, "short.cinfo"),
        (Defect::CinfoMissing, "alone"),
        (Defect::DanglingLink, "dangling.cinfo"),
        (Defect::ForeignLink, "foreign.cinfo"),
        (Defect::NotAFile, "socket"),
        (Defect::UnusableName, ".cinfo"),
    ];
    assert_eq!(told, expected.map(|(defect, path)| (defect, path.to_owned())));
    assert_eq!(account.good, 0);
}

#[test]
fn links_into_spaces_are_followed() {
    let (root, space) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    entry(space.path(), "a", 4, BLOCK);
    for (name, target) in [("a", "01%"), ("a.cinfo", "02%")] {
        let target = space.path().join(target);
        fs::rename(space.path().join(name), &target).unwrap();
        symlink(target, root.path().join(name)).unwrap();
    }
    let account = survey(root.path(), None, &mut |_| ()).unwrap();
    assert_eq!((account.good, account.linked), (1, 1), "{account:?}");
}

#[test]
fn files_that_the_user_may_not_use_are_reported() {
    let root = TempDir::new().unwrap();
    let data = entry(root.path(), "store/a", 4, BLOCK);
    let metadata = fs::metadata(&data).unwrap();
    let (owner, group) = (metadata.uid(), metadata.gid());
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(root.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    ["store", "."].into_iter().for_each(|path| mode(path, 0o777));
    mode("store/a.cinfo", 0o666);
    let is_good = |uid: u32, gid: u32| {
        let account = survey(root.path(), Some(User { uid, gid }), &mut |_| ()).unwrap();
        assert_eq!(account.good == 1, account.defects.is_empty());
        account.good == 1
    };
    for (bits, by_owner, by_group, by_others) in [
        (0o600, true, false, false),
        (0o660, true, true, false),
        (0o666, true, true, true),
        (0o444, false, false, false),
    ] {
        mode("store/a", bits);
        // The owner of a test's files may be root, who may do everything.
        assert_eq!(is_good(owner, group), by_owner || owner == 0, "{bits:o}");
        assert_eq!(is_good(owner + 1, group), by_group, "{bits:o}");
        assert_eq!(is_good(owner + 1, group + 1), by_others, "{bits:o}");
    }
}

#[test]
fn the_account_is_bounded() {
    let root = TempDir::new().unwrap();
    for index in 0..=u64::try_from(KINDS_MAX).unwrap() {
        entry(root.path(), &format!("{index}"), 0, BLOCK * (index + 1));
        fs::write(root.path().join(format!("alone-{index}")), "x").unwrap();
    }
    let account = survey(root.path(), None, &mut |_| ()).unwrap();
    assert_eq!(account.block_sizes.len(), KINDS_MAX + 1);
    assert_eq!(account.block_sizes[&None], 1);
    assert_eq!(account.defects[&Defect::CinfoMissing].examples.len(), EXAMPLES_MAX);
    assert_eq!(account.defects[&Defect::CinfoMissing].count, 33);
}

#[test]
fn a_missing_root_is_an_error() {
    assert!(survey(Path::new("/nowhere/at/all"), None, &mut |_| ()).is_err());
}
