//! Reading ahead: what is fetched of a file before anybody asks for it.
//!
//! - [`Recogniser`] follows the reads of one handle: sequential ones ([`runs`]), strides and vectors that repeat ([`repeats`]),
//!   and passes through the file ([`passes`]).
//! - [`ReadAheadBounds`] bounds the distance: by the link ([`LinkEstimate`]), and by its use
//!   ([`ReadAheadLedger`]), and never farther than the administrator decides ([`ReadAheadSettings`]).

mod bounds;
mod ledger;
mod link;
mod passes;
mod recogniser;
mod repeats;
mod runs;

pub use bounds::{
    FillPolicy, FillPolicyError, READ_AHEAD_WINDOW_MAX, ReadAheadBounds, ReadAheadSettings, STRUCTURE_HISTORY_MAX,
    StructureUse, StructureUseError,
};
pub use ledger::{AheadBytes, AheadSource, ReadAheadLedger, Worth};
pub use link::LinkEstimate;
pub use recogniser::{Recogniser, ZONES_MAX};
