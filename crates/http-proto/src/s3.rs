//! The dialect of S3: requests for buckets and keys, and their answers in XML.

mod answers;
mod listing;
mod operation;

pub use answers::{buckets_document, error_document, location_document};
pub use listing::{ListRequest, Listed, Page, list_document};
pub use operation::{ObjectName, Operation, S3Error, operation_of};
