//! Building blocks without knowledge of requests.

pub(crate) mod contiguous_elements;
pub(crate) mod event;
pub(crate) mod frame_cutter;
pub(crate) mod handles;
pub(crate) mod input;
pub(crate) mod options;
pub(crate) mod output;
pub(crate) mod sessions;
pub(crate) mod status;
