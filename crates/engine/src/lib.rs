//! Drives cache with store and origin; offers open, stat, read and close to any front.
//!
//! A front asks the [`Engine`] for a [`Handle`] and the handle for bytes. It gets them as [`Segment`]s, each a range of an open
//! file or bytes in memory, and decides itself how to send them. It never hears of blocks, fills or origins.

mod accounting;
mod api;
mod base;
mod catalog;
mod entries;
mod freshness;
mod link;
mod namespace;
mod transfer;
mod upkeep;

pub use accounting::purge_ledger::{DiskUse, Evicted, PurgeReport, QuotaUse, Usage};
pub use api::{
    engine::Engine, entry_queries::ENTRIES_PER_PAGE_MAX, handle::Handle, learned_columns::LearnedColumns,
    listing::Listing, opening::Opening, read::Read,
};
pub use base::{
    digest::{ChecksumAlgorithm, ChecksumAlgorithmError},
    error::Error,
    open_request::{Caller, Delegation, OpenRequest, Tried},
    options::{CheckPolicy, IntegrityOptions, Options, PurgeOptions, ReadAheadOptions},
    segment::Segment,
    workers::Workers,
};
pub use catalog::{
    entry_info::EntryInfo,
    state::{IndexState, Presence},
};
pub use forebay_origin::{Checksum, ListDetail};
pub use forebay_store::{Space, VolumeInfo};
pub use forebay_structure::{ColumnSet, SetKey};
pub use forebay_telemetry::{Client, ClientProtocol};
pub use namespace::{
    decisions::{DecisionOptions, Miss, Service},
    redirect::{Redirect, Redirects, WritePolicy},
    routes::{Export, ExportSource, OriginFactory, OriginTarget, RouteError, Routes, Writes},
};
pub use upkeep::scrub::ScrubState;
