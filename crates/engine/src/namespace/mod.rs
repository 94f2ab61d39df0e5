//! Where a path leads, and the rules that apply to it.

pub(crate) mod decisions;
pub(crate) mod local_trees;
pub(crate) mod redirect;
pub(crate) mod routes;
