//! Purge: how much has to go, from where, and which entries that are.
//!
//! Everything is decided here and nothing is done: the [`Ledger`] keeps the sums and the replacement policy, [`plan_purge`]
//! turns rules and sums into [`Goal`]s, a [`PurgeRun`] hands out victims until the goals are met. The caller removes
//! the files, and says of each victim whether it went.

mod expiry;
mod footprint;
mod ledger;
mod plan;
mod run;

pub use expiry::{EXPIRIES_MAX, Expiry};
pub use footprint::Footprint;
pub use ledger::{KeyClass, Ledger};
pub use plan::{
    Budget, DiskSpace, Extent, Goal, Headroom, Mark, Marks, PurgeRules, Quota, Scope, disk_headroom, headroom,
    plan_purge, plan_purge_of_full_disk, plan_purge_to,
};
pub use run::{PurgeRun, Victim};

#[cfg(test)]
mod tests;
