//! The parts that every front shares. A front is a protocol that faces clients.
//!
//! [`Front`] holds the [`Backend`] and the limits of one server. It decides which names a caller may use, limits how much of
//! the server one client can occupy, and bounds the memory of answers. A front reads with [`ReadStream`] when the page cache
//! does not hold the bytes, and translates [`Failure`] into its own protocol.

mod answer_memory;
mod authorization;
mod backend;
mod client_limits;
mod delivery;
mod direct;
mod failure;
mod front;
mod read_stream;
mod refusal_log;
mod reports;
mod request_memory;
mod second_protocol;

pub use answer_memory::{AnswerMemory, ConnectionMemory, MemoryPool, Reservation};
pub use authorization::Connection;
pub use backend::Backend;
pub use client_limits::{ClientLimits, ConnectionPlaces, HandlePlace, HandleShare, Place, network_of, proven_name};
pub use delivery::{DeliveryError, deliver_file, deliver_within, read_to_encrypt};
pub use direct::{DirectAccess, Probe};
pub use failure::{Failure, FailureKind};
pub use forebay_origin::RefusalKind;
pub use forebay_telemetry::ReadKind;
pub use front::{Front, Options};
pub use read_stream::{Batch, ReadSource, ReadStream, append_segment, into_bytes, with_memory};
pub use refusal_log::RefusalLog;
pub use reports::{answered_now, report_read};
pub use request_memory::{RequestMemory, RequestPool, RequestReservation};
pub use second_protocol::{NewClient, SecondProtocol, Serving};
