//! Answers of S3 in XML.

use super::listing::{append, iso_millis};
use crate::multistatus::escape;

/// The namespace of all answers but errors.
pub(super) const NAMESPACE: &str = "http://s3.amazonaws.com/doc/2006-03-01/";

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

/// An error, as clients show it to their users.
pub fn error_document(code: &str, text: &str, resource: &str, request_id: &str) -> String {
    let mut out = format!("{XML}<Error>");
    append(&mut out, "Code", code);
    append(&mut out, "Message", &escape(text));
    append(&mut out, "Resource", &escape(resource));
    append(&mut out, "RequestId", request_id);
    out.push_str("</Error>\n");
    out
}

/// The list of buckets.
pub fn buckets_document<'a>(buckets: impl Iterator<Item = &'a str>) -> String {
    let mut out = format!("{XML}<ListAllMyBucketsResult xmlns=\"{NAMESPACE}\">");
    out.push_str("<Owner><ID>forebay</ID><DisplayName>forebay</DisplayName></Owner><Buckets>");
    for bucket in buckets {
        out.push_str("<Bucket>");
        append(&mut out, "Name", &escape(bucket));
        // The buckets of a configuration have no age, and clients fail without one.
        append(&mut out, "CreationDate", &iso_millis(0));
        out.push_str("</Bucket>");
    }
    out.push_str("</Buckets></ListAllMyBucketsResult>\n");
    out
}

/// The location of a bucket: that of servers without regions.
pub fn location_document() -> String {
    format!("{XML}<LocationConstraint xmlns=\"{NAMESPACE}\"></LocationConstraint>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_that_clients_parse() {
        let text = error_document("NoSuchKey", "not <here>", "/b/a&b", "7");
        assert!(text.ends_with(
            "<Error><Code>NoSuchKey</Code><Message>not &lt;here&gt;</Message><Resource>/b/a&amp;b</Resource><RequestId>7</RequestId></Error>\n"
        ));
        let text = buckets_document(["a", "b"].into_iter());
        assert!(text.contains("<Buckets><Bucket><Name>a</Name><CreationDate>1970-01-01T00:00:00.000Z</CreationDate></Bucket><Bucket><Name>b"));
        assert!(location_document().contains("<LocationConstraint xmlns"));
    }
}
