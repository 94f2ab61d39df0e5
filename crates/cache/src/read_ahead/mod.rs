//! Reading ahead: what is fetched of a file before anybody asks for it.

mod settings;

pub use settings::{FillPolicy, FillPolicyError, READ_AHEAD_WINDOW_MAX, ReadAheadSettings};
