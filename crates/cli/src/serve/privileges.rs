//! Privileges of the process, dropped before it serves clients.

use crate::accounts::user_name;
use forebay_config::{Config, Role, RunAs};
use rustix::{
    fs::{Gid, Uid},
    io::Errno,
    process::{getegid, geteuid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
        remove_capability_from_bounding_set, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
        set_thread_res_uid,
    },
};
use std::{fs, os::unix::fs::MetadataExt, path::Path};

/// Capabilities that root keeps if no user is configured: access to all files, as root would expect.
const OF_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);

/// Bits of a set of capabilities.
const CAPABILITIES: u32 = 64;

/// Changes to `user` if started by root, and drops all capabilities of this process and its children. Without a user, root
/// keeps access to all files. Returns whether the user has changed.
pub(super) fn give_up(user: Option<&RunAs>) -> Result<bool, String> {
    // Users and privileges are per thread.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(format!("internal error: privileges are dropped with {threads} threads running"));
    }
    let (own, own_group) = (geteuid(), getegid());
    let is_changed = match user {
        Some(user) if (user.user, user.group) == (own.as_raw(), own_group.as_raw()) => false,
        Some(user) if !own.is_root() => {
            let remedy = "start as root or as that user, or remove the setting";
            return Err(format!("user {} cannot become `{}`: {remedy}", own.as_raw(), user.name));
        }
        Some(user) => {
            bound_capabilities(CapabilitySet::empty());
            let remedy = "remove the setting if root may not change users here";
            become_user(user).map_err(|error| format!("cannot become `{}`: {error}; {remedy}", user.name))?;
            true
        }
        None => false,
    };
    let stays_root = geteuid().is_root();
    if stays_root && user.is_none() {
        tracing::warn!("running as root: set server.user = \"forebay\", or start as an unprivileged user");
    }
    let kept = if stays_root { OF_ROOT } else { CapabilitySet::empty() };
    bound_capabilities(kept);
    keep_capabilities(kept)
        .and_then(|()| set_no_new_privs(true))
        .map_err(|error| format!("cannot drop privileges: {error}"))?;
    if is_changed && let Some(user) = user {
        tracing::info!(user = user.name, "privileges dropped");
    }
    Ok(is_changed)
}

/// Refuses to write as root to the store of another user, unless `server.user` says so: that user could not read what root
/// writes, and an XCache would lose its files. Call it before [`give_up`].
pub(super) fn check_owner(config: &Config) -> Result<(), String> {
    let own = config.server.user.as_ref().map_or_else(|| geteuid().as_raw(), |user| user.user);
    // Managers only read, and a missing directory is created.
    let owned = config.disks.iter().filter(|_| config.server.role != Role::Manager);
    for (path, metadata) in owned.filter_map(|disk| Some((&disk.path, entry_of_another(&disk.path, own)?))) {
        let (path, uid) = (path.display(), metadata.uid());
        let owner = user_name(uid).unwrap_or_else(|| format!("{uid}:{}", metadata.gid()));
        if own == 0 && config.server.user.is_none() {
            return Err(format!(
                "{path} has entries of `{owner}`, who could not read the files that root writes: set server.user = \"{owner}\" \
                 (or start as that user), and run `chown -R {owner} {path}` if root has written to it before"
            ));
        }
        tracing::warn!(store = %path, owner, "the store has entries of another user, who may be unable to read new files");
    }
    Ok(())
}

/// Entries of a store's root that are looked at: it has a directory for each experiment, or a few.
const ENTRIES_MAX: usize = 1000;

/// An entry of the directory `root` that belongs to another user than `own`. An empty directory is for whoever starts to use it.
fn entry_of_another(root: &Path, own: u32) -> Option<fs::Metadata> {
    let entries = fs::read_dir(root).ok()?.take(ENTRIES_MAX).flatten();
    // The file system's own directory is always root's.
    let entries = entries.filter(|entry| entry.file_name() != "lost+found");
    entries.filter_map(|entry| entry.metadata().ok()).find(|metadata| metadata.uid() != own)
}

fn become_user(user: &RunAs) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(user.user), Gid::from_raw(user.group));
    let groups: Vec<_> = user.other_groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Drops all capabilities except `kept` from the bounding set. A process that may not do that has none to drop.
fn bound_capabilities(kept: CapabilitySet) {
    for capability in (0..CAPABILITIES).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if !kept.contains(capability) && capability_is_in_bounding_set(capability) == Ok(true) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}

/// Drops all capabilities except `kept`.
fn keep_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    let held = capabilities(None)?;
    let left = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    // A sandbox may forbid the calls if there is nothing to drop.
    if left == held {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, left)
}
