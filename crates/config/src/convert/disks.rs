//! The list of disks.

use super::checker::Checker;
use crate::{
    config::DiskConfig,
    file::{Raw, RawDisk},
};
use toml::Spanned;

/// Most disks: more than any machine has.
const DISKS_MAX: usize = 256;

/// Reads the list, or the one disk of the short form.
pub(crate) fn read_disks(raw: &Raw, checker: &mut Checker<'_>) -> Vec<DiskConfig> {
    let short = &raw.store.path;
    if short.is_set() && !raw.disk.is_empty() {
        let name = checker.name("store.path");
        let text = format_args!("both {name} and [[disk]]: write each directory as a [[disk]] of its own");
        checker.refuse("store.path", short.span(), text);
    }
    if let (Some(path), []) = (short.get(), &raw.disk[..]) {
        return vec![DiskConfig { setting: "store.path".to_owned(), path: path.clone(), weight: 1, is_mounted: false }];
    }
    let mut disks: Vec<DiskConfig> = Vec::new();
    for (index, table) in checker.at_most(DISKS_MAX, "disk", &raw.disk).iter().enumerate() {
        if let Some(disk) = read_disk(index, table, &disks, checker) {
            disks.push(disk);
        }
    }
    disks
}

fn read_disk(
    index: usize,
    table: &Spanned<RawDisk>,
    others: &[DiskConfig],
    checker: &mut Checker<'_>,
) -> Option<DiskConfig> {
    let raw = table.get_ref();
    if !raw.path.is_set() {
        checker.refuse("disk.path", Some(&table.span()), "a disk without a directory: write its path");
    }
    let path = raw.path.value()?;
    // Files of a disk in the tree of another one would be taken for entries of that.
    if let Some(other) = others.iter().find(|other| other.path.starts_with(&path) || path.starts_with(&other.path)) {
        let text = format_args!(
            "{} and {} are not two disks: write separate directories",
            path.display(),
            other.path.display()
        );
        checker.refuse("disk.path", raw.path.span(), text);
    }
    let mut disk = DiskConfig { setting: format!("disk[{index}].path"), path, weight: 1, is_mounted: false };
    raw.apply(&mut disk);
    Some(disk)
}
