//! The public interface: records that survive crashes.

mod crash;
mod entries;
