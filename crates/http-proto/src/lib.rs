//! HTTP/1.1 for servers of files, without I/O: requests, ranges, conditions, digests, and the text of answers.
//!
//! [`Session`] turns the bytes of a client into [`Head`]s. [`ranges_of`], [`Conditions`] and [`wanted_digests`] read their fields.
//! [`Answer`] writes heads of answers; [`PartHeads`], [`append_response`] and [`append_html`] write bodies.

mod body;
mod conditions;
mod dates;
mod digests;
mod head;
mod listing;
mod multipart;
mod multistatus;
mod ranges;
mod response;
pub mod s3;
mod session;
mod status;
mod target;
mod token_lists;
mod validators;

pub use conditions::{Conditions, Verdict};
pub use dates::{http_date, iso_date, unix_time};
pub use digests::{DigestForm, WantedDigest, digest_field, wanted_digests};
pub use head::{Expectation, FIELDS_MAX, HEAD_LEN_MAX, Head, Method, TARGET_LEN_MAX, Version};
pub use listing::{Entry, HTML_CLOSING, append_html, append_json, html_opening};
pub use multipart::PartHeads;
pub use multistatus::{CLOSING, OPENING, Resource, append_response};
pub use ranges::{RANGES_MAX, Ranges, ranges_of};
pub use response::{Answer, Fields, Framing};
pub use session::{BODY_LEN_MAX, Next, Refusal, Session};
pub use status::Status;
pub use target::{Target, encode_path};
pub use token_lists::{has_directive, has_token, tokens};
pub use validators::etag_of;
