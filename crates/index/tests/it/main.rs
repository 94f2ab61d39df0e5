//! The public interface: records that survive crashes.

mod column_sets;
mod crash;
mod entries;
