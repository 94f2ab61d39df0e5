//! A member's report of itself.

/// Bytes of cached files on one member.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Census {
    /// All bytes of files that are placed on members.
    pub held_bytes: u64,
    /// Those of files that placement selects another member for, alive or not.
    pub foreign_bytes: u64,
    /// Those of files of which another live member, before this one in their order of placement, has data, too. Estimated from a sample if many are foreign.
    pub duplicate_bytes: u64,
}

/// The state that a member sends with each probe.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Standing {
    /// Whether it takes new files.
    pub(crate) is_active: bool,
    /// Whether clients may be sent to it for files that it has. Active members serve, too.
    pub(crate) is_serving: bool,
    /// Its share of new files, relative to others.
    pub(crate) weight: u32,
    /// `None` before its first one.
    pub(crate) census: Option<Census>,
}
