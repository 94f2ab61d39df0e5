//! Disks of the cache: mounts, owner, free space.

use super::finding::{Findings, Subject};
use crate::text;
use forebay_cache::Budget;
use forebay_config::{Config, Role};
use rustix::{
    fs::{FlockOperation, flock, statvfs},
    process::geteuid,
};
use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

const CHECK: &str = "disk";

const MOUNTS: &str = "/proc/self/mounts";

/// File system types on which a cache is useless or unsafe.
const UNFIT: [&str; 8] = ["nfs", "nfs4", "cifs", "smb3", "tmpfs", "ramfs", "overlay", "9p"];

/// Locked by the server that uses a store.
const LOCK_FILE: &str = ".forebay/lock";

/// Least free share of a disk: one part in a hundred.
const FREE_SHARE_MIN: u64 = 100;

pub(super) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    let config = &subject.settings.config;
    let mounts = fs::read_to_string(MOUNTS).unwrap_or_default();
    for disk in &config.disks {
        // A missing directory is created by the server, or already reported.
        if let Ok(path) = disk.path.canonicalize() {
            let count = findings.count();
            check_mount(&path, config.server.role, &mounts, findings);
            check_owner(&path, config, findings);
            if config.server.role != Role::Manager {
                check_room(&path, config, findings);
            }
            if findings.count() == count {
                findings.ok(CHECK, path.display(), if is_in_use(&path) { "in use by a server" } else { "not in use" });
            }
        }
    }
}

/// Whether a server is using one of the stores.
pub(super) fn is_any_in_use(config: &Config) -> bool {
    config.disks.iter().any(|disk| is_in_use(&disk.path))
}

fn is_in_use(path: &Path) -> bool {
    let Ok(file) = File::open(path.join(LOCK_FILE)) else { return false };
    // The lock is released when the file is dropped.
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// Type and options of the file system of `path`, from the kernel's list of mounts.
fn mount_of<'a>(path: &Path, mounts: &'a str) -> Option<(&'a str, &'a str)> {
    let fields = |line: &'a str| {
        let mut fields = line.split(' ').skip(1);
        let place = PathBuf::from(fields.next()?.replace("\\040", " "));
        Some((place, fields.next()?, fields.next()?))
    };
    let holds = mounts.lines().filter_map(fields).filter(|(place, ..)| path.starts_with(place));
    // Of several mounts on one directory the last is visible.
    let deepest = holds.max_by_key(|(place, ..)| place.components().count());
    deepest.map(|(_, kind, options)| (kind, options))
}

fn check_mount(path: &Path, role: Role, mounts: &str, findings: &mut Findings) {
    let Some((kind, options)) = mount_of(path, mounts) else { return };
    let has = |wanted| options.split(',').any(|option| option == wanted);
    if has("ro") {
        findings.fail(CHECK, path.display(), "is mounted read-only", "check dmesg for disk errors, then remount it");
    }
    // Managers and fillers need a file system shared by several machines.
    if role == Role::Cache && (UNFIT.contains(&kind) || kind.starts_with("fuse")) {
        let found = format!("is a file system of type {kind}");
        findings.warn(CHECK, path.display(), found, "use a local file system: ext4 or XFS");
    }
    if has("discard") && role != Role::Manager {
        let advice = "each removal of a file waits for the device: mount without discard, and run fstrim periodically";
        findings.warn(CHECK, path.display(), "is mounted with discard", advice);
    }
}

fn check_owner(path: &Path, config: &Config, findings: &mut Findings) {
    let Ok(metadata) = path.metadata() else { return };
    let server = config.server.user.as_ref().map_or_else(|| geteuid().as_raw(), |user| user.user);
    if metadata.uid() != server {
        let found = format!("is owned by user {}, but the server runs as user {server}", metadata.uid());
        findings.warn(CHECK, path.display(), found, "change the owner (chown -R), or run this command as that user");
    }
    let (mode, allowed) = (metadata.mode() & 0o777, config.permissions.directory_mode);
    if mode & 0o007 & !allowed != 0 {
        let found = format!("is accessible to all users (mode {mode:04o}), who can see file names");
        findings.warn(CHECK, path.display(), found, "run chmod o-rwx on it");
    }
}

fn check_room(path: &Path, config: &Config, findings: &mut Findings) {
    let Ok(room) = statvfs(path) else { return };
    let (total, free) = (room.f_blocks.saturating_mul(room.f_frsize), room.f_bavail.saturating_mul(room.f_frsize));
    let rules = &config.engine.purge.rules;
    let shown = |bytes| text::bytes(bytes);
    let what = Room { what: "bytes", shown: &shown, setting: "purge.budget" };
    check_amount(path, &what, (total, free), &rules.bytes, findings);
    let shown = |inodes: u64| format!("{inodes} inodes");
    let what = Room { what: "inodes", shown: &shown, setting: "purge.budget_inodes" };
    check_amount(path, &what, (room.f_files, room.f_favail), &rules.inodes, findings);
}

/// A kind of disk space: bytes or inodes.
struct Room<'a> {
    what: &'static str,
    shown: &'a dyn Fn(u64) -> String,
    setting: &'static str,
}

fn check_amount(path: &Path, room: &Room<'_>, (total, free): (u64, u64), budget: &Budget, findings: &mut Findings) {
    // Some file systems do not limit inodes.
    if total == 0 {
        return;
    }
    let Room { what, shown, setting } = room;
    let left = format!("{} free of {}", shown(free), shown(total));
    let high = budget.marks.high.of(total);
    if free < total / FREE_SHARE_MIN {
        let advice = "nothing can be cached: free some space, or use a dedicated file system for the cache";
        findings.fail(CHECK, path.display(), left, advice);
    } else if budget.total.is_none() && total - free.min(total) > high {
        let advice =
            format!("more {what} are in use than purge.high allows: check whether other data fills the file system");
        findings.warn(CHECK, path.display(), left, advice);
    } else if let Some(wanted) = budget.total.filter(|wanted| *wanted > total) {
        let found = format!("{setting} is {}, but the file system has {}", shown(wanted), shown(total));
        findings.warn(CHECK, path.display(), found, "with one disk the budget is never reached: reduce it");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_cache::{Mark, Marks};
    use forebay_types::Share;

    const MOUNTS: &str = "/dev/sda1 / ext4 rw,relatime 0 0\n\
        /dev/sdb1 /data xfs rw,discard 0 0\n\
        server:/x /data/remote nfs4 ro,vers=4.2 0 0\n\
        /dev/sdc1 /my\\040disk ext4 ro 0 0\n\
        broken\n";

    #[test]
    fn a_path_is_on_the_deepest_file_system_that_contains_it() {
        for (path, kind) in [("/", "ext4"), ("/data1", "ext4"), ("/data", "xfs"), ("/data/remote/a", "nfs4")] {
            assert_eq!(mount_of(Path::new(path), MOUNTS).unwrap().0, kind, "{path}");
        }
        assert_eq!(mount_of(Path::new("/my disk/a"), MOUNTS), Some(("ext4", "ro")));
        assert_eq!(mount_of(Path::new("/"), ""), None);
    }

    #[test]
    fn unsuitable_mounts_are_reported() {
        for (path, status, found) in [
            ("/var", 0, ""),
            ("/data", 1, "discard"),
            ("/data/remote", 2, "read-only"),
            ("/data/remote", 2, "nfs4"),
            ("/my disk", 2, "read-only"),
        ] {
            let mut findings = Findings::default();
            check_mount(Path::new(path), Role::Cache, MOUNTS, &mut findings);
            assert_eq!(findings.exit_status(), status, "{path}");
            assert!(format!("{findings:?}").contains(found), "{path}: {findings:?}");
        }
    }

    #[test]
    fn a_shared_file_system_suits_fillers_and_managers() {
        let mounts = "server:/x /shared nfs4 rw,vers=4.2 0 0\n";
        for (role, status) in [(Role::Cache, 1), (Role::Filler, 0), (Role::Manager, 0)] {
            let mut findings = Findings::default();
            check_mount(Path::new("/shared/cache"), role, mounts, &mut findings);
            assert_eq!(findings.exit_status(), status, "{role:?}");
        }
    }

    #[test]
    fn space_is_compared_with_the_marks_and_the_budget() {
        let share = |percent: &str| Mark::Share(percent.parse::<Share>().unwrap());
        let marks = Marks { high: share("90%"), low: share("80%") };
        let shown = |bytes: u64| bytes.to_string();
        for (free, total, status, found) in [
            (500, None, 0, ""),
            (50, None, 1, "other data fills"),
            (9, None, 2, "nothing can be cached"),
            (50, Some(900), 0, ""),
            (500, Some(2000), 1, "never reached"),
        ] {
            let mut findings = Findings::default();
            let room = Room { what: "bytes", shown: &shown, setting: "purge.budget" };
            check_amount(Path::new("/d"), &room, (1000, free), &Budget { total, marks }, &mut findings);
            assert_eq!(findings.exit_status(), status, "{free} {total:?}");
            assert!(format!("{findings:?}").contains(found), "{findings:?}");
        }
    }
}
