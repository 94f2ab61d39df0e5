//! The public interface: the `root://` front, byte by byte.

mod broken_disk;
mod changes;
mod draining;
mod events;
mod names;
mod reads;
mod session;
mod site;
mod slow_reads;
mod time_limits;
