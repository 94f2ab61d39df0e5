//! What the process may do beyond the files of its user: given up before it talks to anybody.

use forebay_config::RunAs;
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
use std::fs;

/// What is left to root when it has not said who the server is to be: root's way with files, which it would not expect to lose.
const OF_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER);

/// Bits that a set of capabilities has.
const CAPABILITIES: u32 = 64;

/// Why privileges could not be given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrivilegesError {
    /// Only root can become another user.
    #[error(
        "this is not root, but user {own}, which cannot become `{wanted}`: start as root or as that user, or leave the setting out"
    )]
    NotRoot { own: u32, wanted: String },
    #[error("cannot become `{wanted}`: {source}; leave the setting out where root may not change users")]
    Refused { wanted: String, source: Errno },
    /// The system refuses to take privileges away.
    #[error("privileges cannot be given up: {0}")]
    Kept(Errno),
    /// Threads have users and privileges of their own, so there must be one only.
    #[error("a fault of our own: privileges are given up when there are {0} threads already")]
    Threads(usize),
}

/// Becomes `user`, if root has started the process, and gives up all capabilities, for this process and what it may start. Root
/// without a user keeps its way with files. True when the user has changed.
pub(super) fn give_up(user: Option<&RunAs>) -> Result<bool, PrivilegesError> {
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads > 1 {
        return Err(PrivilegesError::Threads(threads));
    }
    let (own, own_group) = (geteuid(), getegid());
    let is_changed = match user {
        Some(user) if (user.user, user.group) == (own.as_raw(), own_group.as_raw()) => false,
        Some(user) if !own.is_root() => {
            return Err(PrivilegesError::NotRoot { own: own.as_raw(), wanted: user.name.clone() });
        }
        Some(user) => {
            bound_capabilities(CapabilitySet::empty());
            become_user(user).map_err(|source| PrivilegesError::Refused { wanted: user.name.clone(), source })?;
            true
        }
        None => false,
    };
    let stays_root = geteuid().is_root();
    if stays_root && user.is_none() {
        tracing::warn!("this runs as root: write server.user = \"forebay\", or start it as an unprivileged user");
    }
    let kept = if stays_root { OF_ROOT } else { CapabilitySet::empty() };
    bound_capabilities(kept);
    keep_capabilities(kept).and_then(|()| set_no_new_privs(true)).map_err(PrivilegesError::Kept)?;
    if let Some(user) = user.filter(|_| is_changed) {
        tracing::info!(user = user.name, "privileges given up");
    }
    Ok(is_changed)
}

fn become_user(user: &RunAs) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(user.user), Gid::from_raw(user.group));
    let groups: Vec<_> = user.other_groups.iter().copied().map(Gid::from_raw).collect();
    set_thread_groups(&groups)?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)
}

/// Takes all but `kept` from what programs that are started can ever have. Who may not do that has nothing to take.
fn bound_capabilities(kept: CapabilitySet) {
    for capability in (0..CAPABILITIES).map(|bit| CapabilitySet::from_bits_retain(1 << bit)) {
        if !kept.contains(capability) && capability_is_in_bounding_set(capability) == Ok(true) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}

/// Gives up all capabilities but `kept`.
fn keep_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    let held = capabilities(None)?;
    let left = CapabilitySets {
        effective: held.effective & kept,
        permitted: held.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    // A sandbox may forbid the calls where there is nothing to give up.
    if left == held {
        return Ok(());
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, left)
}
