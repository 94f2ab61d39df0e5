//! Attributes of virtual organizations: attribute certificates in proxies, and whom a site lets hand them out.
//!
//! [`attributes`] gives what a chain carries. An attribute certificate that is not in order gives no attributes, and the reason for
//! the log; it is not a reason to refuse the client.

mod attribute_certificate;
mod directory;
mod verify;

pub use attribute_certificate::{ATTRIBUTE_CERTIFICATES_MAX, ATTRIBUTES_MAX, AttributeCertificateError};
pub use directory::{LSC_LEN_MAX, VomsDir, VomsDirError};
pub use verify::{Attributes, VomsError, VomsFault, VomsSite, attributes};
