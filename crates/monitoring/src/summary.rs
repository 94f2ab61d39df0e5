//! Summary reports: counters of a server as XML, as the directive `xrd.report` of XRootD sends them.

use std::fmt::{Display, Write as _};

/// The server in the header of a report.
#[derive(Clone, Copy, Debug)]
pub struct SummaryHeader<'a> {
    /// The time of the report and that of the start of the server, in seconds of the Unix epoch.
    pub now: i64,
    pub start: u32,
    pub version: &'a str,
    pub host: &'a str,
    pub port: u16,
    pub program: &'a str,
    pub instance: &'a str,
    pub pid: u32,
    pub site: &'a str,
}

/// A report that is being written: blocks, and in them values and nested elements. Receivers skip elements that they do not know, and take
/// missing ones as zero.
#[derive(Clone, Debug)]
pub struct SummaryReport(String);

impl SummaryReport {
    /// A report without blocks.
    #[must_use]
    pub fn new(header: &SummaryHeader<'_>) -> Self {
        let SummaryHeader { now, start, version, host, port, program, instance, pid, site } = header;
        let [version, host, program, instance, site] =
            [version, host, program, instance, site].map(|text| escaped(text));
        Self(format!(
            "<statistics tod=\"{now}\" ver=\"{version}\" src=\"{host}:{port}\" tos=\"{start}\" pgm=\"{program}\" \
             ins=\"{instance}\" pid=\"{pid}\" site=\"{site}\">"
        ))
    }

    /// Adds a block with the attributes `more`, such as `type="pfc"`.
    #[must_use]
    pub fn block(mut self, id: &str, more: &str, content: impl FnOnce(Self) -> Self) -> Self {
        let blank = if more.is_empty() { "" } else { " " };
        self.0.extend(["<stats id=\"", id, "\"", blank, more, ">"]);
        let mut filled = content(self);
        filled.0.push_str("</stats>");
        filled
    }

    /// Adds an element with elements in it.
    #[must_use]
    pub fn element(mut self, name: &str, content: impl FnOnce(Self) -> Self) -> Self {
        self.0.extend(["<", name, ">"]);
        let mut filled = content(self);
        filled.0.extend(["</", name, ">"]);
        filled
    }

    /// Adds an element with a value.
    #[must_use]
    pub fn value(self, name: &str, value: impl Display) -> Self {
        self.element(name, |report| report.text(value))
    }

    /// Adds a text, as the value of the element that is being written.
    #[must_use]
    pub fn text(mut self, value: impl Display) -> Self {
        // Writing to a string does not fail.
        let _ = write!(self.0, "{}", escaped(&value.to_string()));
        self
    }

    /// The report as a datagram.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        self.0.push_str("</statistics>");
        self.0.into_bytes()
    }
}

/// A text in an element or attribute of XML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write them.
            other if other.is_control() => escaped.push('_'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_written_as_xrootd_does() {
        let header = SummaryHeader {
            now: 1_795_430_070,
            start: 1_795_430_000,
            version: "v5.5.3",
            host: "vm",
            port: 24_102,
            program: "xrootd",
            instance: "p",
            pid: 7,
            site: "A&\"B\"",
        };
        let report = SummaryReport::new(&header).block("link", "", |block| block.value("num", 0)).block(
            "cache",
            "type=\"pfc\"",
            |block| block.element("pass", |pass| pass.text(5).value("cnt", 1)).value("lp", "/a<b>\n"),
        );
        let expected = "<statistics tod=\"1795430070\" ver=\"v5.5.3\" src=\"vm:24102\" tos=\"1795430000\" pgm=\"xrootd\" \
            ins=\"p\" pid=\"7\" site=\"A&amp;&quot;B&quot;\"><stats id=\"link\"><num>0</num></stats>\
            <stats id=\"cache\" type=\"pfc\"><pass>5<cnt>1</cnt></pass><lp>/a&lt;b&gt;_</lp></stats></statistics>";
        assert_eq!(String::from_utf8(report.finish()).unwrap(), expected);
    }
}
