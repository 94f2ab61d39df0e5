//! From what a site has configured to the file.

use super::{
    Translation,
    document::{Document, Table, string, strings},
    note::{Fate, Note, Verdict},
    site::{Export, FixedOrigin, Notes, Setting, Site, Written},
    usage::{Amount, rest_of},
    values::time_text,
};
use crate::reader::Instance;
use forebay_types::ByteSize;
use std::time::Duration;

/// What XCache exports when nothing is said.
const EXPORT_DEFAULT: &str = "/tmp";

/// Block size and memory of XCache when nothing is said.
const BLOCK_SIZE_DEFAULT: u64 = 128 << 10;

/// Block sizes are multiples of this one.
const BLOCK_UNIT: u64 = 4096;

/// Memory for buffers of XCache when nothing is said, and the number of blocks that must fit it at once here.
const RAM_DEFAULT: u64 = 1 << 30;
const BLOCKS_IN_MEMORY: u64 = 4;

/// Composes the file, or says why there cannot be one.
pub(super) fn compose(site: &Site, mut notes: Notes, instance: &Instance, source: &str) -> Translation {
    let refusals = refusals(site);
    let mut document = Document::default();
    if refusals.is_empty() {
        settle(site, &mut notes);
        head(&mut document, instance, source);
        document.add(server(site, &notes));
        document.add(store(site, &notes));
        document.add(memory(site, &notes));
        document.add(purge(site, &notes));
        for table in quotas(site, &notes) {
            document.add(table);
        }
        for table in exports(site, &notes) {
            document.add(table);
        }
        document.add(forwarding(site, &notes));
        document.add(decision(site, &notes));
        for table in rules(site, &notes) {
            document.add(table);
        }
        document.add(read_ahead(site, &notes));
        document.add(origin(site, &notes));
        tail(&mut document, &notes);
    }
    let file = refusals.is_empty().then(|| document.to_string());
    let store = site.local_root.value().cloned();
    Translation { file, refusals, notes: notes.into_vec(), store }
}

/// Why this configuration cannot be taken over.
fn refusals(site: &Site) -> Vec<String> {
    let mut refusals = Vec::new();
    if site.cache.0.is_none() {
        refusals.push(
            "this instance has no disk cache: no `pss.cachelib` names XCache's library. If the file serves several \
             instances, name the right one with --instance (and --host)"
                .to_owned(),
        );
        return refusals;
    }
    if site.local_root.0.is_none() {
        refusals.push("no `oss.localroot` says where the cache is: XCache would keep its files below /".to_owned());
    }
    match site.origin.value() {
        None => refusals.push("no `pss.origin` says where files come from".to_owned()),
        Some(origin) => match &origin.fixed {
            Some(FixedOrigin::Unserved(url)) if !origin.is_forwarding => {
                refusals.push(format!(
                    "files come from {url}: only root:// origins without TLS are served in this release"
                ));
            }
            _ => {}
        },
    }
    refusals
}

/// Decides about directives that depend on others.
fn settle(site: &Site, notes: &mut Notes) {
    let origin = site.origin.value().cloned().unwrap_or_default();
    if !origin.is_forwarding {
        for permit in &site.permits {
            notes.decide(permit.note, Verdict::not_needed("clients may not name origins"));
        }
    }
    if let (true, Some(written)) = (origin.is_forwarding, &site.origin.0) {
        notes.decide(written.note, Verdict::not_honoured(FORWARDED));
    }
    if let (Some(FixedOrigin::Unserved(url)), Some(written)) = (&origin.fixed, &site.origin.0) {
        let text =
            format!("forwarding only: {url} cannot be asked in this release, names without an origin are refused");
        notes.decide(written.note, Verdict::not_honoured(text));
    }
    if origin.fixed.is_none() {
        for export in &site.exports {
            notes.decide(export.note, Verdict::not_needed("all names come with their origin"));
        }
    }
    if let Some(block_size) = &site.block_size.0
        && block_size.value % BLOCK_UNIT != 0
    {
        notes.decide(block_size.note, Verdict::honoured("rounded up to a multiple of 4KiB, as by XCache"));
    }
}

/// What it means that keys of forwarded files hold their origin.
const FORWARDED: &str = "clients may name root:// origins as before, but what XCache cached for them is not found: it does not \
     record the origin, and mixes up files of one name. It stays on disk until it is purged";

fn head(document: &mut Document, instance: &Instance, source: &str) {
    document.head(format!(
        "Made by `forebay adopt` from {source} for {} `{}` on {}.",
        instance.program, instance.name, instance.host
    ));
    document.head("Each setting is below the directive it comes from. What has no setting is at the end.");
}

fn server(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[server]");
    let listen = |port: u16| strings([format!("[::]:{port}")]);
    match &site.port.0 {
        Some(port) => table.set("listen", listen(port.value), [notes.get(port.note)]),
        None => table.set_because(
            "listen",
            listen(forebay_types::XROOTD_PORT),
            "No xrd.port: the default, unless -p says otherwise.",
        ),
    }
    add(&mut table, "site_name", &site.name, notes, |name| string(name));
    add(&mut table, "idle_time_max", &site.idle_time, notes, time_value);
    add(&mut table, "login_time_max", &site.login_time, notes, time_value);
    add(&mut table, "checksum_algorithms", &site.checksums, notes, |names| strings(names));
    table
}

fn store(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[store]");
    add(&mut table, "path", &site.local_root, notes, |path| string(path));
    match &site.block_size.0 {
        Some(size) => table.set("block_size", size_value(round_up(size.value)), [notes.get(size.note)]),
        None => table.set_because("block_size", size_value(BLOCK_SIZE_DEFAULT), "No pfc.blocksize: XCache's default."),
    }
    table
}

fn memory(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[memory]");
    let block_size = round_up(site.block_size.value().copied().unwrap_or(BLOCK_SIZE_DEFAULT));
    let least = block_size.saturating_mul(BLOCKS_IN_MEMORY);
    let ram = site.ram.value().copied().unwrap_or(RAM_DEFAULT);
    match &site.ram.0 {
        _ if ram < least => {
            table.set_because("budget", size_value(least), "More than pfc.ram says: four blocks must fit.");
        }
        Some(ram) => table.set("budget", size_value(ram.value), [notes.get(ram.note)]),
        None => table.set_because("budget", size_value(ram), "No pfc.ram: XCache's default."),
    }
    table
}

fn purge(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[purge]");
    let Some(Written { value: usage, note }) = &site.usage.0 else { return table };
    let mut from = Some(notes.get(*note));
    let mut set = |key: &str, value: String| table.set(key, value, from.take());
    match usage.files {
        Some((Amount::Bytes(nominal), Amount::Bytes(max))) => {
            set("budget", size_value(max));
            set("high", string("100%"));
            set("low", size_value(nominal.min(max)));
            if let Amount::Part(high) = usage.high {
                set("free_min", amount_value(Amount::Part(rest_of(high))));
            }
        }
        _ => {
            set("high", amount_value(usage.high));
            set("low", amount_value(usage.low));
        }
    }
    if let Some(age) = usage.age_max {
        set("age_max", time_value(&age));
    }
    table
}

fn quotas(site: &Site, notes: &Notes) -> Vec<Table> {
    let mut tables = Vec::new();
    for Written { value: quotas, note } in &site.quotas {
        for (index, quota) in quotas.iter().enumerate() {
            let mut table = Table::new("[[quota]]");
            table.set("path", string(&quota.path), (index == 0).then(|| notes.get(*note)));
            table.set("max", size_value(quota.bytes), None);
            tables.push(table);
        }
    }
    tables
}

fn amount_value(amount: Amount) -> String {
    match amount {
        Amount::Bytes(bytes) => size_value(bytes),
        Amount::Part(share) => string(&share.to_string()),
    }
}

fn exports(site: &Site, notes: &Notes) -> Vec<Table> {
    let Some(Written { value: origin, note }) = &site.origin.0 else { return Vec::new() };
    let (key, files) = match &origin.fixed {
        Some(FixedOrigin::Server(server)) => ("origins", strings([format!("root://{server}")])),
        Some(FixedOrigin::Directory(directory)) => ("directory", string(directory)),
        Some(FixedOrigin::Unserved(_)) | None => return Vec::new(),
    };
    let mut tables = Vec::new();
    let mut add = |path: &str, is_read_only: bool, written: Option<&Written<Export>>| {
        let mut table = Table::new("[[export]]");
        match written {
            Some(export) => table.set("path", string(path), [notes.get(export.note)]),
            None => table.set_because("path", string(path), "No all.export: xrootd's default."),
        }
        table.set(key, &files, [notes.get(*note)]);
        if let (Some(Written { value: true, note }), false, "origins") = (&site.is_write_through.0, is_read_only, key) {
            table.set("writes", string("redirect"), [notes.get(*note)]);
        }
        tables.push(table);
    };
    for export in &site.exports {
        add(&export.value.path, export.value.is_read_only, Some(export));
    }
    if site.exports.is_empty() {
        add(EXPORT_DEFAULT, true, None);
    }
    tables
}

fn forwarding(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[forwarding]");
    let Some(Written { value: origin, note }) = &site.origin.0 else { return table };
    if !origin.is_forwarding {
        return table;
    }
    if site.permits.is_empty() {
        table.set("allow", strings(["*:*"]), [notes.get(*note)]);
    } else {
        let hosts = site.permits.iter().map(|permit| format!("{}:*", permit.value));
        table.set("allow", strings(hosts), site.permits.iter().map(|permit| notes.get(permit.note)));
    }
    table
}

fn decision(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[decision]");
    add(&mut table, "cached_size_min", &site.cached_size, notes, |bytes| size_value(*bytes));
    add(&mut table, "cached_fraction_min", &site.cached_fraction, notes, |fraction| format!("{fraction:?}"));
    table
}

fn rules(site: &Site, notes: &Notes) -> Vec<Table> {
    let is_forwarding = site.origin.value().is_some_and(|origin| origin.is_forwarding);
    let mut tables = Vec::new();
    for Written { value: patterns, note } in &site.uncached {
        let forwarded = |pattern: &String| is_forwarding.then(|| format!("/root:/*{pattern}"));
        let paths = patterns.iter().flat_map(|pattern| [Some(pattern.clone()), forwarded(pattern)]).flatten();
        for (index, path) in paths.enumerate() {
            let mut table = Table::new("[[rule]]");
            let from = (index == 0).then(|| notes.get(*note));
            table.set("path", string(&path), from);
            table.set("action", string("bypass"), None);
            tables.push(table);
        }
    }
    tables
}

/// XCache reads whole files ahead while they are open, or nothing.
fn read_ahead(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[read_ahead]");
    match &site.prefetch.0 {
        Some(Written { value: 0, note }) => table.set("enabled", "false", [notes.get(*note)]),
        Some(Written { note, .. }) => table.set("fill", string("while-open"), [notes.get(*note)]),
        None => table.set_because("fill", string("while-open"), "No pfc.prefetch: XCache fetches whole files."),
    }
    table
}

fn origin(site: &Site, notes: &Notes) -> Table {
    let mut table = Table::new("[origin]");
    let client = &site.client;
    add(&mut table, "connect_timeout", &client.connect, notes, time_value);
    add(&mut table, "first_byte_timeout", &client.stream, notes, time_value);
    add(&mut table, "deadline", &client.request, notes, time_value);
    add(&mut table, "circuit_time", &client.pause, notes, time_value);
    add(&mut table, "idle_timeout", &client.idle, notes, time_value);
    add(&mut table, "attempts", &client.tries, notes, |tries| tries.to_string());
    add(&mut table, "streams", &client.parallel, notes, |streams| streams.to_string());
    add(&mut table, "page_reads", &site.page_reads, notes, bool::to_string);
    table
}

/// Adds `key`, if there is a setting.
fn add<T>(table: &mut Table, key: &str, setting: &Setting<T>, notes: &Notes, value: impl FnOnce(&T) -> String) {
    if let Some(written) = &setting.0 {
        table.set(key, value(&written.value), [notes.get(written.note)]);
    }
}

fn time_value(time: &Duration) -> String {
    string(&time_text(*time))
}

fn size_value(bytes: u64) -> String {
    string(&ByteSize(bytes).to_string())
}

fn round_up(block_size: u64) -> u64 {
    block_size.checked_next_multiple_of(BLOCK_UNIT).unwrap_or(block_size)
}

/// Tells at the end of the file what has no setting.
fn tail(document: &mut Document, notes: &Notes) {
    for fate in Fate::ALL.into_iter().rev().filter(|fate| *fate != Fate::Honoured) {
        let told: Vec<&Note> = notes.iter().filter(|note| note.fate == fate).collect();
        if !told.is_empty() {
            document.tail(format!("{}:", fate.as_str()));
        }
        for Note { place, directive, text, .. } in told {
            document.tail(format!("- {directive} ({place}): {text}"));
        }
    }
}
