//! The list of disks.

use crate::{
    checker::Checker,
    config::DiskConfig,
    convert::parse_path,
    raw::{RawDisk, RawStore},
};
use std::path::PathBuf;
use toml::Spanned;

/// Most disks: more than any machine has.
const DISKS_MAX: usize = 256;

/// Weights that make sense: a disk without weight is no disk.
const WEIGHTS: (u64, u64) = (1, 1000);

/// Reads the list, or the one disk that is written the short way; notes disks without a directory and directories that are
/// written twice.
pub(crate) fn read_disks(store: &RawStore, raw: &[Spanned<RawDisk>], checker: &mut Checker<'_>) -> Vec<DiskConfig> {
    let setting = "store.path".to_owned();
    let short = checker.read("store.path", store.path.as_ref(), |text| parse_path(text));
    if let (Some(_), Some(written)) = (raw.first(), &store.path) {
        let (name, list) = (checker.source().name("store.path"), "[[disk]]");
        let text = format_args!("both {name} and {list}: write each directory as a {list} of its own");
        checker.refuse("store.path", Some(&written.span()), text);
    }
    if let (Some(path), None) = (&short, raw.first()) {
        return vec![DiskConfig { setting, path: path.clone(), weight: 1, is_mounted: false }];
    }
    if let Some(first_too_many) = raw.get(DISKS_MAX) {
        checker.refuse("disk.path", Some(&first_too_many.span()), format_args!("more than {DISKS_MAX} disks"));
    }
    let mut disks: Vec<DiskConfig> = Vec::new();
    for (index, table) in raw.iter().enumerate() {
        if let Some(disk) = read_disk(index, table, checker) {
            refuse_second(&disks, &disk.path, table, checker);
            disks.push(disk);
        }
    }
    disks
}

fn read_disk(index: usize, table: &Spanned<RawDisk>, checker: &mut Checker<'_>) -> Option<DiskConfig> {
    let raw = table.get_ref();
    let mut weight = 1;
    checker.set_number(&mut weight, "disk.weight", raw.weight.as_ref(), WEIGHTS);
    if raw.path.is_none() {
        checker.refuse("disk.path", Some(&table.span()), "a disk without a directory: write its path");
    }
    let path = checker.read("disk.path", raw.path.as_ref(), |text| parse_path(text))?;
    let is_mounted = raw.mounted.as_ref().is_some_and(|mounted| *mounted.get_ref());
    Some(DiskConfig { setting: format!("disk[{index}].path"), path, weight, is_mounted })
}

/// One directory is one disk; nor may a disk lie in another's tree, where its files would be taken for entries.
fn refuse_second(disks: &[DiskConfig], path: &PathBuf, table: &Spanned<RawDisk>, checker: &mut Checker<'_>) {
    if let Some(other) = disks.iter().find(|other| other.path.starts_with(path) || path.starts_with(&other.path)) {
        let (path, other) = (path.display(), other.path.display());
        let text = format_args!("{path} and {other} are not two disks: write directories that are apart");
        checker.refuse("disk.path", table.get_ref().path.as_ref().map(Spanned::span).as_ref(), text);
    }
}
