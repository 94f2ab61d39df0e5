//! The dCap protocol in the role of a server for readers, without I/O.
//!
//! A client has one control connection, of lines of text, and a data connection for each open file, of binary messages. [`Lines`] cuts
//! the bytes of a control connection, [`ControlRequest`] reads a line, and [`ControlAnswer`] writes one. A data connection begins with a
//! [`Greeting`]; [`DataSession`] turns the bytes after it into requests, and [`DataAnswer`] writes the messages around the bytes of the file.

mod control_answer;
mod control_request;
mod data_answer;
mod data_session;
mod greeting;
mod lines;
mod name;
mod received;
mod refusal;
mod words;

pub use control_answer::{ControlAnswer, STAT_MODE_LEN};
pub use control_request::{Command, ControlRequest, Hello, LineError, Open, SESSION_MAX};
pub use data_answer::{BLOCK_LEN_MAX, DataAnswer};
pub use data_session::{DataError, DataRequest, DataSession, PARTS_MAX, Reading, VECTOR_LEN_MAX};
pub use greeting::{CHALLENGE_LEN_MAX, Greeting, GreetingError};
pub use lines::{LINE_LEN_MAX, LineTooLong, Lines};
pub use name::{NameError, path_of};
pub use refusal::{Errno, Refusal};
