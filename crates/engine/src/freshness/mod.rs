//! Whether a copy may be served, and to this caller.

pub(crate) mod origin_metadata;
pub(crate) mod origin_permission;
pub(crate) mod shared_names;
pub(crate) mod validity;
