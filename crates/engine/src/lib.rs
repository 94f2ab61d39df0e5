//! Drives cache with store and origin; offers open, stat, read and close to any front.
//!
//! A front asks the [`Engine`] for a [`Handle`] and the handle for bytes. It gets them as [`Segment`]s, each a range of an open
//! file or bytes in memory, and decides itself how to send them. It never hears of blocks, fills or origins.

mod account;
mod budget;
mod cached;
mod catalog;
mod claims;
mod coalesced;
mod continued;
mod decisions;
mod driver;
mod engine;
mod error;
mod fill;
mod flights;
mod handle;
mod identity;
mod integrity;
mod kept;
mod latch;
mod leases;
mod leaving;
mod loader;
mod local;
mod new_file;
mod opened;
mod opening;
mod options;
mod pause;
mod permission;
mod piece;
mod planner;
mod purger;
mod questions;
mod read;
mod read_ahead;
mod record;
mod recovery;
mod routes;
mod segment;
mod shared;
mod sync;
mod table;
mod validity;
mod volumes;
mod work;
mod writer;

pub use catalog::{ENTRIES_PER_PAGE_MAX, EntryInfo, IndexState};
pub use decisions::DecisionOptions;
pub use engine::{Engine, Space, WritePolicy};
pub use error::Error;
pub use forebay_origin::{Checksum, ListDetail};
pub use forebay_store::VolumeInfo;
pub use handle::Handle;
pub use integrity::{CheckPolicy, ChecksumAlgorithm, ChecksumAlgorithmError, IntegrityOptions, ScrubState};
pub use opened::Client;
pub use opening::{Opening, Redirect, Redirects};
pub use options::Options;
pub use purger::{DiskUse, Evicted, PurgeOptions, PurgeReport, QuotaUse, Usage};
pub use read::Read;
pub use read_ahead::ReadAheadOptions;
pub use routes::{Export, ExportSource, OriginFactory, RouteError, Routes, Writes};
pub use segment::Segment;
pub use work::Workers;
