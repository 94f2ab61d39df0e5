//! Listings of directories for browsers, and for programs that read links or JSON.

use crate::{dates::iso_date, multistatus::escape, target::encode_path};
use serde_json::json;

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

/// A page with a link for each entry, and no other link: fsspec and rclone take every link for an entry.
pub fn html_listing<'a>(path: &str, entries: impl Iterator<Item = Entry<'a>>) -> String {
    let path = escape(path);
    let mut page = format!(
        "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>{path}</title><style>{STYLE}</style></head>\n\
         <body><h1>{path}</h1><table><tr><th>Name</th><th>Size</th><th>Changed</th></tr>\n"
    );
    for Entry { name, is_directory, size, mtime } in entries {
        let slash = if is_directory { "/" } else { "" };
        // A name with a colon would be taken for a URL of its own. fsspec does not remove the dot from others.
        let dot = if name.contains(':') { "./" } else { "" };
        let href = format!("{dot}{}{slash}", encode_path(name));
        let size = size.map(|size| size.to_string()).unwrap_or_default();
        let changed = mtime.map(iso_date).unwrap_or_default();
        page.push_str(&format!(
            "<tr><td><a href=\"{}\">{}{slash}</a></td><td class=\"n\">{size}</td><td>{changed}</td></tr>\n",
            escape(&href),
            escape(name),
        ));
    }
    page.push_str("</table></body></html>\n");
    page
}

/// One JSON object per line and entry.
pub fn json_listing<'a>(entries: impl Iterator<Item = Entry<'a>>) -> String {
    let mut lines = String::new();
    for Entry { name, is_directory, size, mtime } in entries {
        let kind = if is_directory { "directory" } else { "file" };
        lines.push_str(&json!({ "name": name, "type": kind, "size": size, "mtime": mtime }).to_string());
        lines.push('\n');
    }
    lines
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
        let page = html_listing("/x<y", ENTRIES.into_iter());
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
        let lines = json_listing(ENTRIES.into_iter());
        let lines: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[0], json!({ "name": "a:b <c>", "type": "file", "size": 5, "mtime": 784_111_777 }));
        assert_eq!(lines[1], json!({ "name": "d", "type": "directory", "size": null, "mtime": null }));
    }
}
