//! The answers to PROPFIND.
//!
//! The prefix `D:` is in every name, in upper case: XrdClHttp and Rucio look for it as text.

use crate::{
    dates::{http_date, iso_date},
    target::encode_path,
};

/// The bytes before the first resource.
pub const OPENING: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\">\n";

/// The bytes after the last one.
pub const CLOSING: &str = "</D:multistatus>\n";

/// A file or directory, as PROPFIND shows it.
#[derive(Clone, Copy, Debug)]
pub struct Resource<'a> {
    /// The whole path, not encoded, without a slash at its end.
    pub path: &'a str,
    pub is_directory: bool,
    pub size: u64,
    /// Time of the last change in seconds of the Unix epoch.
    pub mtime: i64,
    pub etag: Option<&'a str>,
}

/// Appends one resource with all of its properties, whichever the client asked for.
pub fn append_response(resource: &Resource<'_>, out: &mut String) {
    let Resource { path, is_directory, size, mtime, etag } = *resource;
    let name = path.rsplit('/').next().unwrap_or_default();
    let slash = if is_directory && path != "/" { "/" } else { "" };
    out.push_str("<D:response>");
    append(out, "href", &escape(&format!("{}{slash}", encode_path(path))));
    out.push_str("<D:propstat><D:prop>");
    append(out, "displayname", &escape(name));
    append(out, "getlastmodified", &http_date(mtime));
    append(out, "creationdate", &iso_date(mtime));
    if is_directory {
        // A directory has no length: an empty one makes XrdClHttp fail the listing.
        append(out, "resourcetype", "<D:collection/>");
    } else {
        append(out, "getcontentlength", &size.to_string());
        append(out, "getcontenttype", "application/octet-stream");
        append(out, "resourcetype", "");
        if let Some(etag) = etag {
            append(out, "getetag", &escape(etag));
        }
    }
    // davix drops properties without a status.
    out.push_str("</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n");
}

fn append(out: &mut String, name: &str, value: &str) {
    for part in ["<D:", name, ">", value, "</D:", name, ">"] {
        out.push_str(part);
    }
}

/// Text as XML and HTML hold it. Characters that XML cannot hold are replaced.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(resource: &Resource<'_>) -> String {
        let mut out = String::new();
        append_response(resource, &mut out);
        out
    }

    #[test]
    fn files_have_a_length_and_directories_a_slash() {
        let file =
            Resource { path: "/a b/<f>&", is_directory: false, size: 5, mtime: 784_111_777, etag: Some("\"5-a\"") };
        assert_eq!(
            written(&file),
            "<D:response><D:href>/a%20b/%3Cf%3E&amp;</D:href><D:propstat><D:prop><D:displayname>&lt;f&gt;&amp;</D:displayname>\
             <D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified>\
             <D:creationdate>1994-11-06T08:49:37Z</D:creationdate><D:getcontentlength>5</D:getcontentlength>\
             <D:getcontenttype>application/octet-stream</D:getcontenttype><D:resourcetype></D:resourcetype>\
             <D:getetag>&quot;5-a&quot;</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>\n"
        );
        let directory = Resource { path: "/d", is_directory: true, ..file };
        let text = written(&directory);
        assert!(
            text.contains("<D:href>/d/</D:href>") && text.contains("<D:resourcetype><D:collection/></D:resourcetype>")
        );
        assert!(!text.contains("getcontentlength"));
        assert!(written(&Resource { path: "/", ..directory }).contains("<D:href>/</D:href>"));
    }

    #[test]
    fn characters_that_xml_cannot_hold_are_replaced() {
        assert_eq!(escape("a\u{1}\u{ffff}<'\">&"), "a\u{fffd}\u{fffd}&lt;&#39;&quot;&gt;&amp;");
    }
}
