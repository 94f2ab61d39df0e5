//! `xrootd.monitor`, `xrootd.mongstream` and `xrd.report`: collectors of monitoring.

use super::{
    document::string,
    item::Item,
    note::{
        Fate::{Honoured, NotHonoured, NotNeeded},
        Verdict,
    },
    site::{Site, Written},
    values::{limited, time, time_text},
};
use std::{ops::RangeInclusive, time::Duration};

/// Events of `dest` that collectors of the accounting get.
const ACCOUNTED: [&str; 4] = ["fstat", "user", "info", "pfc"];

/// Events of `dest`, of these and of others.
const OTHERS: [&str; 10] = ["files", "io", "iov", "redir", "ccm", "tcpmon", "tpc", "throttle", "oss", "http"];

/// Collectors of one kind at most, as in the configuration.
const COLLECTORS_MAX: usize = 8;

/// Limits of `flush_interval`, and of the other intervals.
const FLUSH: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);
const INTERVAL: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(366 * 86_400);

/// Reads the directive `xrootd.monitor [auth] [flush T] [fstat T [lfn] [ops] [ssq] [xfr N]] [ident T] {dest [EVENTS] HOST:PORT}...`.
pub(super) fn take_monitor(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let destinations = destinations(item.words);
    if destinations.is_empty() {
        return NotNeeded.because("it names no destination");
    }
    let Some(fstat) = interval(item, "fstat") else { return Verdict::malformed() };
    let Some(identity) = interval(item, "ident") else { return Verdict::malformed() };
    let (accounted, others): (Vec<_>, Vec<_>) = destinations.into_iter().partition(|(_, is_accounted)| *is_accounted);
    if accounted.is_empty() {
        return NotHonoured.because("traces of reads and of redirects are not sent; see [trace]");
    }
    for (collector, _) in &accounted {
        if let Err(verdict) = add(collector, item.note, &mut site.collectors) {
            return verdict;
        }
    }
    if let Some(fstat) = fstat {
        set("monitoring.flush_interval", fstat, &FLUSH, item, site);
        let transfers: Option<u32> = item.after("xfr").and_then(|count| count.parse().ok());
        if let Some(progress) = transfers.and_then(|count| fstat.checked_mul(count)) {
            set("monitoring.progress_interval", progress, &INTERVAL, item, site);
        }
    }
    if let Some(identity) = identity {
        set("monitoring.identity_interval", identity, &INTERVAL, item, site);
    }
    let all = "each collector gets logins, opens and closes with paths and operations, and events of the cache";
    match others.first() {
        Some((other, _)) => Honoured.because(format!("{all}; {other} gets nothing: its events are not sent")),
        None => Honoured.because(all),
    }
}

/// Reads the directive `xrootd.mongstream EVENTS use [flush T] [maxlen N] [send FORMAT [HEADER]] HOST:PORT`.
pub(super) fn take_stream(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let events: Vec<_> = item.words.iter().take_while(|word| **word != "use").collect();
    if !events.iter().any(|event| matches!(**event, "pfc" | "all")) {
        return NotHonoured.because("of these streams, only that of the cache (pfc) is sent");
    }
    if item.words.contains(&"send") {
        return NotHonoured
            .because("text headers are not sent: list a collector that takes binary ones in monitoring.collectors");
    }
    let Some(collector) = item.words.last().filter(|word| is_collector(word)) else {
        return NotNeeded.because("collectors get the events of the cache with the other streams");
    };
    match add(collector, item.note, &mut site.collectors) {
        Ok(()) => Honoured.because("the collector gets all streams"),
        Err(verdict) => verdict,
    }
}

/// Reads the directive `xrd.report HOST:PORT[,HOST:PORT] [every T] OPTIONS`.
pub(super) fn take_report(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let Some(every) = interval(item, "every") else { return Verdict::malformed() };
    for collector in item.first().split(',') {
        if let Err(verdict) = add(collector, item.note, &mut site.summary_collectors) {
            return verdict;
        }
    }
    set("monitoring.summary_interval", every.unwrap_or(REPORT_DEFAULT), &INTERVAL, item, site);
    Honoured.because("all elements are in one report")
}

/// xrootd's default interval of reports.
const REPORT_DEFAULT: Duration = Duration::from_secs(600);

/// The servers after each `dest`, and whether their events are those of the accounting.
fn destinations<'d>(words: &[&'d str]) -> Vec<(&'d str, bool)> {
    let mut found = Vec::new();
    let mut rest = words.iter();
    while rest.any(|word| *word == "dest") {
        let mut events = Vec::new();
        for word in rest.by_ref() {
            if !ACCOUNTED.contains(word) && !OTHERS.contains(word) {
                let is_accounted = events.iter().any(|event| ACCOUNTED.contains(event));
                found.push((*word, is_accounted));
                break;
            }
            events.push(*word);
        }
    }
    found
}

/// The time after `key`, which may be missing; `None` if it is not a time.
fn interval(item: &Item<'_>, key: &str) -> Option<Option<Duration>> {
    match item.after(key) {
        Some(text) => time(text).map(Some),
        None => Some(None),
    }
}

fn set(key: &'static str, value: Duration, range: &RangeInclusive<Duration>, item: &mut Item<'_>, site: &mut Site) {
    let (value, _) = limited(value, range);
    // A second directive adds collectors, and sets the intervals of all.
    site.plain.insert(key, item.written(string(&time_text(value))));
}

fn add(collector: &str, note: usize, collectors: &mut Vec<Written<String>>) -> Result<(), Verdict> {
    if !is_collector(collector) {
        return Err(NotHonoured.because(format!("`{collector}` is not a collector: write HOST:PORT in [monitoring]")));
    }
    if collectors.iter().any(|known| known.value == collector) {
        return Ok(());
    }
    if collectors.len() == COLLECTORS_MAX {
        return Err(NotHonoured.because(format!("more than {COLLECTORS_MAX} collectors")));
    }
    collectors.push(Written { value: collector.to_owned(), note });
    Ok(())
}

fn is_collector(text: &str) -> bool {
    let port = |text: &str| text.parse::<u16>().is_ok_and(|port| port > 0);
    text.rsplit_once(':').is_some_and(|(host, number)| !host.is_empty() && port(number))
}
