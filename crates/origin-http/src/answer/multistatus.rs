//! Answers to `PROPFIND` (RFC 4918, 14.16).

use super::{facts::unix_time, xml::reference};
use percent_encoding::percent_decode_str;
use quick_xml::{
    NsReader,
    events::Event,
    name::{Namespace, ResolveResult},
};

/// The namespace of WebDAV's own elements and properties.
const DAV: Namespace<'static> = Namespace("DAV:");

/// Deepest nesting of elements. Answers of servers have six levels; privilege sets some more.
const DEPTH_MAX: usize = 32;

/// Most resources of an answer: larger directories are not listed.
const RESOURCES_MAX: usize = 200_000;

/// Longest text of an element that is kept, in bytes: the longest path, escaped.
const TEXT_LEN_MAX: usize = 16 << 10;

/// A file or directory, as WebDAV describes it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Resource {
    /// The path, unescaped, without a slash at its end.
    pub(crate) path: String,
    pub(crate) is_directory: bool,
    pub(crate) size: Option<u64>,
    pub(crate) mtime: Option<i64>,
}

/// Properties with one status.
#[derive(Default)]
struct Properties {
    is_directory: bool,
    size: Option<u64>,
    mtime: Option<i64>,
    /// A group without a status counts: some servers leave it out.
    is_refused: bool,
}

/// Position in the document.
#[derive(Default)]
struct Parser {
    /// The open elements: local names of the namespace `DAV:`, others are empty.
    path: Vec<String>,
    text: String,
    resource: Resource,
    properties: Properties,
    found: Vec<Resource>,
}

/// Reads the resources of an answer, in its order.
///
/// # Errors
/// States the fault: it is not a multistatus document, or beyond a limit.
pub(crate) fn parse(xml: &[u8]) -> Result<Vec<Resource>, String> {
    // Names in other encodings cannot be requested either.
    let xml = std::str::from_utf8(xml).map_err(|_| "it is not in UTF-8".to_owned())?;
    let mut reader = NsReader::from_str(xml);
    let mut parser = Parser::default();
    let mut is_multistatus = false;
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|error| format!("malformed XML: {error}"))?;
        let is_dav = matches!(namespace, ResolveResult::Bound(bound) if bound == DAV);
        match event {
            Event::Start(element) => {
                let name = if is_dav { element.local_name().as_ref().to_owned() } else { String::new() };
                is_multistatus |= parser.path.is_empty() && name == "multistatus";
                parser.start(name)?;
            }
            Event::Empty(element) => {
                let name = if is_dav { element.local_name().as_ref().to_owned() } else { String::new() };
                parser.start(name)?;
                parser.end()?;
            }
            Event::End(_) => parser.end()?,
            Event::Text(text) => parser.add_text(&text),
            Event::CData(data) => parser.add_text(&data),
            Event::GeneralRef(name) => parser.add_text(&reference(&name)?),
            // Entities of a document's own could grow without limit.
            Event::DocType(_) => return Err("it has a document type".to_owned()),
            Event::Eof => break,
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
        }
    }
    if is_multistatus { Ok(parser.found) } else { Err("it is not a multistatus document".to_owned()) }
}

impl Parser {
    fn start(&mut self, name: String) -> Result<(), String> {
        if self.path.len() >= DEPTH_MAX {
            return Err(format!("its elements are nested deeper than {DEPTH_MAX} levels"));
        }
        match name.as_str() {
            "response" => self.resource = Resource::default(),
            "propstat" => self.properties = Properties::default(),
            "collection" if self.is_in("resourcetype") => self.properties.is_directory = true,
            _ => {}
        }
        self.text.clear();
        self.path.push(name);
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        let name = self.path.pop().unwrap_or_default();
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        match name.as_str() {
            "href" if self.is_in("response") => self.resource.path = path_of(text),
            "status" if self.is_in("propstat") => self.properties.is_refused = !is_success(text),
            "getcontentlength" if self.is_in("prop") => self.properties.size = text.parse().ok(),
            "getlastmodified" if self.is_in("prop") => self.properties.mtime = unix_time(text),
            // XrdHttp 5 and 6 state it as a property.
            "iscollection" if self.is_in("prop") && text == "1" => self.properties.is_directory = true,
            "propstat" => self.merge(),
            "response" => self.close_resource()?,
            _ => {}
        }
        Ok(())
    }

    fn is_in(&self, name: &str) -> bool {
        self.path.last().is_some_and(|last| last == name)
    }

    fn add_text(&mut self, text: &str) {
        if self.text.len() + text.len() <= TEXT_LEN_MAX {
            self.text.push_str(text);
        }
    }

    /// Takes properties over, unless their status says that there are none.
    fn merge(&mut self) {
        let Properties { is_directory, size, mtime, is_refused } = std::mem::take(&mut self.properties);
        if !is_refused {
            self.resource.is_directory |= is_directory;
            self.resource.size = self.resource.size.or(size);
            self.resource.mtime = self.resource.mtime.or(mtime);
        }
    }

    fn close_resource(&mut self) -> Result<(), String> {
        if self.found.len() >= RESOURCES_MAX {
            return Err(format!("it has more than {RESOURCES_MAX} entries"));
        }
        self.found.push(std::mem::take(&mut self.resource));
        Ok(())
    }
}

fn is_success(status: &str) -> bool {
    status.split_whitespace().nth(1).is_some_and(|code| code.starts_with('2'))
}

/// The path of a reference, which may be a whole URL.
fn path_of(href: &str) -> String {
    let path = match href.split_once("://") {
        Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/"),
        _ => href,
    };
    // XrdHttp 5.5.3 writes names as they are: a blank or a letter that no URL has shows it.
    if path.bytes().any(|byte| byte == b' ' || !byte.is_ascii()) {
        return path.trim_end_matches('/').to_owned();
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    decoded.trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn resource(path: &str, is_directory: bool, size: Option<u64>, mtime: Option<i64>) -> Resource {
        Resource { path: path.to_owned(), is_directory, size, mtime }
    }

    #[test]
    fn names_that_xrdhttp_has_not_escaped_are_taken_as_they_are() {
        for (href, path) in [
            ("/data/a%20b/", "/data/a b"),
            ("https://h/d%C3%A9?x#y", "/d\u{e9}"),
            ("/data/a b%20+\u{e9}?.bin", "/data/a b%20+\u{e9}?.bin"),
            ("http://h/a b/", "/a b"),
        ] {
            assert_eq!(path_of(href), path);
        }
    }

    #[test]
    fn prefixes_do_not_matter_and_refused_properties_do_not_count() {
        let xml = br#"<?xml version="1.0" encoding="utf-8"?>
            <d:multistatus xmlns:d="DAV:" xmlns:x="http://other/">
              <d:response><d:href>https://dav.example/data/</d:href>
                <d:propstat><d:prop><d:resourcetype><d:collection/></d:resourcetype>
                  <d:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</d:getlastmodified></d:prop>
                  <d:status>HTTP/1.1 200 OK</d:status></d:propstat>
                <d:propstat><d:prop><d:getcontentlength>4096</d:getcontentlength></d:prop>
                  <d:status>HTTP/1.1 404 Not Found</d:status></d:propstat>
              </d:response>
              <d:response><d:href>/data/a%20&amp;%C3%A9</d:href>
                <d:propstat><d:prop><d:getcontentlength>12</d:getcontentlength><x:getcontentlength>13</x:getcontentlength>
                  <d:resourcetype/></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>
              </d:response>
            </d:multistatus>"#;
        let expected =
            [resource("/data", true, None, Some(784_111_777)), resource("/data/a &\u{e9}", false, Some(12), None)];
        assert_eq!(parse(xml).unwrap(), expected);
        let default = br#"<multistatus xmlns="DAV:"><response><href>/a</href><propstat><prop><getcontentlength>1</getcontentlength>
            <iscollection>1</iscollection></prop></propstat></response></multistatus>"#;
        assert_eq!(parse(default).unwrap(), [resource("/a", true, Some(1), None)]);
    }

    #[test]
    fn other_documents_are_refused() {
        for (xml, reason) in [
            ("", "not a multistatus"),
            ("<html><body/></html>", "not a multistatus"),
            ("<multistatus/>", "not a multistatus"),
            ("<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", "document type"),
            ("<D:multistatus xmlns:D=\"DAV:\"><D:response>&bomb;</D:response></D:multistatus>", "unknown entity"),
            ("<D:multistatus xmlns:D=\"DAV:\"></D:response>", "malformed"),
            (&format!("<D:multistatus xmlns:D=\"DAV:\">{}", "<a>".repeat(40)), "nested deeper"),
        ] {
            let error = parse(xml.as_bytes()).unwrap_err();
            assert!(error.contains(reason), "{xml}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_listing_or_an_error(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn any_names_are_read_as_they_were_written(name in "[ -~\u{e9}]{1,20}") {
            prop_assume!(!name.contains('/'));
            let escaped = percent_encoding::utf8_percent_encode(&name, percent_encoding::NON_ALPHANUMERIC);
            let xml = format!("<D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/d/{escaped}</D:href></D:response></D:multistatus>");
            prop_assert_eq!(parse(xml.as_bytes()).unwrap(), [resource(&format!("/d/{name}"), false, None, None)]);
        }
    }
}
