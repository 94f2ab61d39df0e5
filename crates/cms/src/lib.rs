//! The protocol between the manager of an XRootD cluster (`cmsd`) and its data servers, in the role of a data server.
//!
//! A data server connects to each manager, logs in, and answers questions about files: [`NodeSession`] turns the bytes of a
//! manager into [`Event`]s and commands into bytes. Nothing here performs I/O or reads a clock.

mod frame;
mod login;
mod message;
mod pup;
mod session;

pub use frame::{DATA_LEN_MAX, Frame, FrameError, Frames, HEADER_LEN};
pub use login::{Login, LoginReply, PATHS_LEN_MAX, paths_len};
pub use message::{ForNode, Held, Load, MessageError, PATH_LEN_MAX, SUPERVISORS_MAX, Space};
pub use session::{Event, NodeSession, Report, SILENCE_MAX, SessionError};
