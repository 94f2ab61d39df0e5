//! The subject of the checks, their findings, and the output.

use crate::text;
use forebay_auth::UnixTime;
use forebay_config::Settings;
use serde::Serialize;
use std::{
    fmt::Display,
    io::{self, Write},
};

/// The settings under examination, and the time of the examination.
pub(crate) struct Subject<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) now: UnixTime,
}

/// Severity of a finding, in the order of the exit statuses of monitoring systems.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Ok,
    /// It works, but needs attention.
    Warn,
    Fail,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    pub(crate) check: &'static str,
    /// The file, address or setting.
    pub(crate) place: String,
    pub(crate) found: String,
    /// Remedy; empty if none is needed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) advice: String,
}

#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

#[derive(Serialize)]
struct Report<'a> {
    level: Level,
    findings: &'a [Finding],
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warn => "WARN",
            Self::Fail => "FAIL",
        }
    }
}

impl Findings {
    pub(crate) fn ok(&mut self, check: &'static str, place: impl Display, found: impl Display) {
        self.add(Level::Ok, check, place, found, "");
    }

    pub(crate) fn warn(&mut self, check: &'static str, place: impl Display, found: impl Display, advice: impl Display) {
        self.add(Level::Warn, check, place, found, advice);
    }

    pub(crate) fn fail(&mut self, check: &'static str, place: impl Display, found: impl Display, advice: impl Display) {
        self.add(Level::Fail, check, place, found, advice);
    }

    pub(crate) fn add(
        &mut self,
        level: Level,
        check: &'static str,
        place: impl Display,
        found: impl Display,
        advice: impl Display,
    ) {
        let (place, found, advice) = (place.to_string(), found.to_string(), advice.to_string());
        self.0.push(Finding { level, check, place, found, advice });
    }

    pub(crate) const fn count(&self) -> usize {
        self.0.len()
    }

    fn level(&self) -> Level {
        self.0.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok)
    }

    /// 0 if all checks pass, 1 with warnings, 2 with failures.
    pub(crate) fn exit_status(&self) -> u8 {
        self.level() as u8
    }

    /// A summary on the first line, because some monitoring systems show no more, then the findings, the worst first.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let count = |level| self.0.iter().filter(|finding| finding.level == level).count();
        let [fine, warnings, failures] = [Level::Ok, Level::Warn, Level::Fail].map(count);
        writeln!(out, "{}: {failures} failures, {warnings} warnings, {fine} fine", self.level().as_str())?;
        for level in [Level::Fail, Level::Warn, Level::Ok] {
            for finding in self.0.iter().filter(|finding| finding.level == level) {
                let Finding { check, place, found, advice, .. } = finding;
                let (place, found) = (text::printable(place), text::printable(found));
                writeln!(out, "{:<4} {check}: {place}: {found}", level.as_str())?;
                if !advice.is_empty() {
                    writeln!(out, "     -> {}", text::printable(advice))?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn print_json(&self, out: &mut impl Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, &Report { level: self.level(), findings: &self.0 })?;
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_decides_and_is_printed_first() {
        let mut findings = Findings::default();
        assert_eq!(findings.exit_status(), 0);
        findings.ok("disk", "/a", "fine");
        assert_eq!(findings.exit_status(), 0);
        findings.warn("disk", "/b", "nearly full", "buy one");
        assert_eq!(findings.exit_status(), 1);
        findings.fail("disk", "/c", "gone\n", "find it");
        findings.ok("disk", "/d", "fine");
        assert_eq!(findings.exit_status(), 2);
        let mut text = Vec::new();
        findings.print(&mut text).unwrap();
        let lines: Vec<_> = std::str::from_utf8(&text).unwrap().lines().collect();
        assert_eq!(lines[0], "FAIL: 1 failures, 1 warnings, 2 fine");
        assert!(lines[1].starts_with("FAIL disk: /c: gone"), "{lines:?}");
        assert_eq!(lines[2], "     -> find it");
        assert_eq!(lines.len(), 7);
    }
}
