//! Wide area networks on one machine: hosts are network namespaces, and this process moves the packets between them as slowly as
//! the way is long. TCP is the system's own, so windows, slow start and retransmissions are real.

mod accuracy;
mod device;
mod host;
mod keeper;
mod lab;
mod link;
mod plan;
mod preset;
mod probe;
mod random;
mod relay;
mod waiting;

pub use accuracy::{Accuracy, AccuracyOptions, Bound, TABLE_HEAD, measure};
pub use host::{Tuning, enter_namespace};
pub use keeper::keep;
pub use lab::{Description, EndDescription, HostDescription, Lab, PathDescription};
pub use plan::{PathPlan, Plan};
pub use preset::{PRESETS, PathShape, Preset, line_mbit_to_data};
pub use probe::{RoundTrips, Stream};
pub use random::Random;
pub use relay::Traffic;
pub use waiting::wait_for;
