//! The list of disks.

use crate::{
    accounts::parse_group,
    checker::Checker,
    config::DiskConfig,
    convert::parse_path,
    raw::{RawDisk, RawStore},
};
use forebay_store::Permissions;
use std::path::PathBuf;
use toml::Spanned;

/// Most disks: more than any machine has.
const DISKS_MAX: usize = 256;

/// Weights that make sense: a disk without weight is no disk.
const WEIGHTS: (u64, u64) = (1, 1000);

/// Permissions that the server needs at least, and those that it gives at most.
pub(crate) const FILE_MODES: (u32, u32) = (0o600, 0o644);
const DIRECTORY_MODES: (u32, u32) = (0o700, 0o755);

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

/// Who may use new files, besides the server's user.
pub(crate) fn read_permissions(raw: &RawStore, checker: &mut Checker<'_>) -> Permissions {
    let mut permissions = Permissions::default();
    let (files, directories) = (raw.file_mode.as_ref(), raw.directory_mode.as_ref());
    checker.set(&mut permissions.file_mode, "store.file_mode", files, |text| parse_mode(text, FILE_MODES));
    checker.set(&mut permissions.directory_mode, "store.directory_mode", directories, |text| {
        parse_mode(text, DIRECTORY_MODES)
    });
    permissions.group = checker.read("store.group", raw.group.as_ref(), |text| parse_group(text));
    permissions
}

/// A mode in octal digits, between the least that the server itself needs and the most that lets nobody else write.
pub(crate) fn parse_mode(text: &str, (least, most): (u32, u32)) -> Result<u32, String> {
    let is_octal = !text.is_empty() && text.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    let mode = u32::from_str_radix(text, 8).ok().filter(|_| is_octal);
    mode.filter(|mode| mode & least == least && mode & !most == 0).ok_or_else(|| {
        format!("`{}` is no mode for this: write octal digits from {least:04o} to {most:04o}", text.escape_default())
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_let_the_server_write_and_nobody_else() {
        for (text, expected) in [("0600", Some(0o600)), ("640", Some(0o640)), ("0644", Some(0o644))] {
            assert_eq!(parse_mode(text, FILE_MODES).ok(), expected, "{text}");
        }
        for text in ["", "0400", "0660", "0666", "0700", "1600", "+600", "0o600", "rw", "0608", "77777777777"] {
            assert!(parse_mode(text, FILE_MODES).is_err(), "{text}");
        }
        assert_eq!(parse_mode("0750", DIRECTORY_MODES), Ok(0o750));
        assert!(parse_mode("0770", DIRECTORY_MODES).unwrap_err().contains("0700 to 0755"));
    }
}
