//! Listings of directories for browsers, and for programs that read links or JSON.

use crate::{dates::iso_date, multistatus::escape, target::encode_path};
use serde_json::json;
use std::fmt::Write as _;

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The name alone, without a slash.
    pub name: &'a str,
    pub is_directory: bool,
    /// Of a file, if it is known.
    pub size: Option<u64>,
    /// Time of the last change in seconds of the Unix epoch, if it is known.
    pub mtime: Option<i64>,
}

const STYLE: &str =
    "body{font:14px sans-serif;margin:2em}td,th{padding:.2em 1em .2em 0;text-align:left}td.n{text-align:right}";

/// The bytes of a page before its first entry. It has no links but those of entries: fsspec and rclone take every link for an entry.
pub fn html_opening(path: &str) -> String {
    let path = escape(path);
    format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{path}</title><style>{STYLE}</style></head>\n\
         <body><h1>{path}</h1><table><tr><th>Name</th><th>Size</th><th>Changed</th></tr>\n"
    )
}

/// The bytes of a page after its last entry.
pub const HTML_CLOSING: &str = "</table></body></html>\n";

/// Appends an entry of a page.
pub fn append_html(entry: &Entry<'_>, out: &mut String) {
    let Entry { name, is_directory, size, mtime } = *entry;
    let slash = if is_directory { "/" } else { "" };
    // A name with a colon would be taken for a URL of its own. fsspec does not remove the dot from others.
    let dot = if name.contains(':') { "./" } else { "" };
    let href = escape(&format!("{dot}{}{slash}", encode_path(name)));
    let size = size.map(|size| size.to_string()).unwrap_or_default();
    let changed = mtime.map(iso_date).unwrap_or_default();
    let name = escape(name);
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "<tr><td><a href=\"{href}\">{name}{slash}</a></td><td class=\"n\">{size}</td><td>{changed}</td></tr>"
    );
}

/// Appends an entry as a line of JSON.
pub fn append_json(entry: &Entry<'_>, out: &mut String) {
    let Entry { name, is_directory, size, mtime } = *entry;
    let kind = if is_directory { "directory" } else { "file" };
    let _ = writeln!(out, "{}", json!({ "name": name, "type": kind, "size": size, "mtime": mtime }));
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: [Entry<'_>; 2] = [
        Entry { name: "a:b <c>", is_directory: false, size: Some(5), mtime: Some(784_111_777) },
        Entry { name: "d", is_directory: true, size: None, mtime: None },
    ];

    #[test]
    fn pages_link_the_entries_only() {
        let mut page = html_opening("/x<y");
        ENTRIES.iter().for_each(|entry| append_html(entry, &mut page));
        page.push_str(HTML_CLOSING);
        assert_eq!(page.matches("href=").count(), 2);
        assert!(page.contains(
            "<a href=\"./a:b%20%3Cc%3E\">a:b &lt;c&gt;</a></td><td class=\"n\">5</td><td>1994-11-06T08:49:37Z"
        ));
        assert!(
            page.contains("<a href=\"d/\">d/</a>") && page.contains("<h1>/x&lt;y</h1>") && !page.contains("<script")
        );
    }

    #[test]
    fn lines_of_json_hold_what_is_known() {
        let mut lines = String::new();
        ENTRIES.iter().for_each(|entry| append_json(entry, &mut lines));
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], json!({ "name": "a:b <c>", "type": "file", "size": 5, "mtime": 784_111_777 }));
        assert_eq!(lines[1], json!({ "name": "d", "type": "directory", "size": null, "mtime": null }));
    }
}
