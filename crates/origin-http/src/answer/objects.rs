//! Answers to `ListObjectsV2` of S3.

use super::xml::reference;
use percent_encoding::percent_decode_str;
use quick_xml::{Reader, events::Event};

/// Deepest nesting of elements; answers of S3 have four levels.
const DEPTH_MAX: usize = 16;

/// Longest text of an element that is kept, in bytes: a key of 1024 bytes, escaped twice.
const TEXT_LEN_MAX: usize = 16 << 10;

/// Most entries of one answer. Servers send 1000 at most.
const ENTRIES_MAX: usize = 10_000;

/// A part of a listing.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Objects {
    pub(crate) entries: Vec<Object>,
    /// Names the next part, if there is one.
    pub(crate) continuation: Option<String>,
}

/// An object, or a common beginning of keys, which is a directory.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Object {
    /// The whole key; that of a directory ends with a slash.
    pub(crate) key: String,
    pub(crate) size: u64,
    pub(crate) mtime: Option<i64>,
}

/// Reads an answer.
///
/// # Errors
/// States the fault: it is not a listing, or beyond a limit.
pub(crate) fn parse(xml: &[u8]) -> Result<Objects, String> {
    let xml = std::str::from_utf8(xml).map_err(|_| "it is not in UTF-8".to_owned())?;
    let mut reader = Reader::from_str(xml);
    let mut parser = Parser::default();
    loop {
        match reader.read_event().map_err(|error| format!("malformed XML: {error}"))? {
            Event::Start(element) => parser.start(element.local_name().as_ref())?,
            Event::Empty(element) => {
                parser.start(element.local_name().as_ref())?;
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
    parser.finish()
}

#[derive(Default)]
struct Parser {
    path: Vec<String>,
    text: String,
    object: Object,
    found: Objects,
    is_listing: bool,
    is_encoded: bool,
    is_truncated: bool,
}

impl Parser {
    fn start(&mut self, name: &str) -> Result<(), String> {
        if self.path.len() >= DEPTH_MAX {
            return Err(format!("its elements are nested deeper than {DEPTH_MAX} levels"));
        }
        self.is_listing |= self.path.is_empty() && name == "ListBucketResult";
        if self.path.len() == 1 && matches!(name, "Contents" | "CommonPrefixes") {
            self.object = Object::default();
        }
        self.text.clear();
        self.path.push(name.to_owned());
        Ok(())
    }

    fn add_text(&mut self, text: &str) {
        if self.text.len() + text.len() <= TEXT_LEN_MAX {
            self.text.push_str(text);
        }
    }

    fn end(&mut self) -> Result<(), String> {
        let name = self.path.pop().unwrap_or_default();
        let text = std::mem::take(&mut self.text);
        match (self.path.last().map(String::as_str), name.as_str()) {
            (Some("Contents"), "Key") | (Some("CommonPrefixes"), "Prefix") => self.object.key = text,
            (Some("Contents"), "Size") => {
                self.object.size = text.trim().parse().map_err(|_| "a size is not a number".to_owned())?;
            }
            (Some("Contents"), "LastModified") => self.object.mtime = unix_time_of_iso(text.trim()),
            (Some("ListBucketResult"), "Contents" | "CommonPrefixes") => {
                if self.found.entries.len() >= ENTRIES_MAX {
                    return Err(format!("it has more than {ENTRIES_MAX} entries"));
                }
                self.found.entries.push(std::mem::take(&mut self.object));
            }
            (Some("ListBucketResult"), "EncodingType") => self.is_encoded = text.trim() == "url",
            (Some("ListBucketResult"), "IsTruncated") => self.is_truncated = text.trim() == "true",
            (Some("ListBucketResult"), "NextContinuationToken") => self.found.continuation = Some(text),
            _ => {}
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Objects, String> {
        if !self.is_listing {
            return Err("it is not a listing of objects".to_owned());
        }
        if self.is_encoded {
            for entry in &mut self.found.entries {
                // As in forms: a blank is a plus.
                let text = entry.key.replace('+', " ");
                entry.key = percent_decode_str(&text).decode_utf8_lossy().into_owned();
            }
        }
        if !self.is_truncated {
            self.found.continuation = None;
        } else if self.found.continuation.is_none() {
            return Err("it is incomplete, and does not name the next part".to_owned());
        }
        Ok(self.found)
    }
}

/// Seconds of the Unix epoch of a time as `2026-11-25T10:00:00.000Z`.
fn unix_time_of_iso(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Years that begin in March: the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
            - 1
            - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn objects_and_common_prefixes_are_entries() {
        let xml = br#"<?xml version="1.0" encoding="UTF-8"?>
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Prefix>d/</Prefix>
              <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>
              <NextContinuationToken>a+b&amp;c=</NextContinuationToken>
              <Contents><Key>d/a+b%2B%C3%A9.bin</Key><Size>5</Size><LastModified>1994-11-06T08:49:37.123Z</LastModified>
                <ETag>"x"</ETag><Owner><ID>d</ID></Owner></Contents>
              <CommonPrefixes><Prefix>d/sub/</Prefix></CommonPrefixes>
            </ListBucketResult>"#;
        let file = Object { key: "d/a b+\u{e9}.bin".to_owned(), size: 5, mtime: Some(784_111_777) };
        let directory = Object { key: "d/sub/".to_owned(), ..Object::default() };
        let continuation = Some("a+b&c=".to_owned());
        assert_eq!(parse(xml), Ok(Objects { entries: vec![file, directory], continuation }));
    }

    #[test]
    fn other_documents_are_refused() {
        let deep = format!("<ListBucketResult>{}", "<a>".repeat(DEPTH_MAX));
        let many = format!(
            "<ListBucketResult>{}</ListBucketResult>",
            "<Contents><Key>a</Key></Contents>".repeat(ENTRIES_MAX + 1)
        );
        for xml in [
            "",
            "<Error><Code>NoSuchBucket</Code></Error>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><Contents><Size>x</Size></Contents></ListBucketResult>",
            "<!DOCTYPE a><ListBucketResult/>",
            deep.as_str(),
            many.as_str(),
        ] {
            assert!(parse(xml.as_bytes()).is_err(), "{}", xml.get(..60).unwrap_or(xml));
        }
        assert_eq!(parse(b"<ListBucketResult/>"), Ok(Objects::default()));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, time) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T12:00:00.5Z", Some(951_825_600)),
            ("2026-11-25T10:00:00.000Z", Some(1_795_600_800)),
            ("2026-13-01T00:00:00Z", None),
            ("yesterday", None),
        ] {
            assert_eq!(unix_time_of_iso(text), time, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_listing_or_an_error(text in "[ -~<>/&;]{0,200}") {
            let _ = parse(text.as_bytes());
            let _ = unix_time_of_iso(&text);
        }
    }
}
