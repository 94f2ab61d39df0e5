//! `xrd.*`, `xrootd.*` and `all.*`: the server.

use super::{
    document::strings,
    http,
    item::Item,
    note::{
        Fate::{Honoured, NotHonoured, NotNeeded},
        Verdict,
    },
    site::{Export, Form, Site},
};

/// Reads the directive `xrd.port [tls] {any|PORT}`.
pub(super) fn take_port(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    match item.words {
        ["tls", ..] => NotHonoured.because("there is no separate port for TLS: see tls.policy"),
        ["any", ..] => item.take(Some(0), &mut site.port),
        words => item.take(words.first().and_then(|port| port.parse().ok()), &mut site.port),
    }
}

/// Reads the directive `all.export PATH [OPTIONS]`.
pub(super) fn take_export(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let path = item.first();
    if path == "*" || !path.starts_with('/') {
        return NotHonoured.because("object names, which do not begin with a slash, are not served");
    }
    let path = trimmed(path);
    if site.exports.iter().any(|export| export.value.path == path) {
        return NotNeeded.because("exported by an earlier line");
    }
    let is_read_only =
        item.rest().iter().any(|option| matches!(*option, "r/o" | "forcero" | "notwritable" | "readonly"));
    site.exports.push(item.written(Export { path: path.to_owned(), is_read_only }));
    Honoured.because("")
}

pub(super) fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

/// Reads the directive `xrd.timeout [hail T] [idle T] [kill T] [read T]`.
pub(super) fn take_timeouts(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let mut verdict = NotNeeded.because("see server.write_stall_max and server.login_time_max");
    if let Some(text) = item.after("hail") {
        verdict = site.set("server.login_time_max", Form::Time, text, item);
    }
    match item.after("idle") {
        Some("0") => NotNeeded.because("connections with open files are kept; for others see server.idle_time_max"),
        Some(text) => site.set("server.idle_time_max", Form::Time, text, item),
        None => verdict,
    }
}

/// Reads the directive `xrootd.chksum [max N] [chkcgi] NAME... [PROGRAM]`.
pub(super) fn take_checksums(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let words = if item.first() == "max" { item.words.get(2..).unwrap_or_default() } else { item.words };
    let words: Vec<_> = words.iter().filter(|word| **word != "chkcgi").collect();
    let is_name = |word: &&&&str| !word.starts_with(['/', '-', '?']) && !word.contains(['=', '.']);
    let names: Vec<_> = words.iter().take_while(is_name).map(|word| (**word).to_owned()).collect();
    let has_program = words.len() > names.len();
    if names.is_empty() {
        return Verdict::malformed();
    }
    site.write("server.checksum_algorithms", strings(names), item);
    Honoured.because(if has_program { "checksums are requested from the origin; the program is not run" } else { "" })
}

/// Reads the directive `xrd.protocol NAME[:PORT] LIBRARY`.
pub(super) fn take_protocol(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    match item.first().split(':').next().unwrap_or_default() {
        "xroot" | "xrootd" | "root" => NotNeeded.because("root:// is always served, on server.listen"),
        "http" | "https" | "xrdhttp" | "XrdHttp" => http::take_protocol(item, site),
        name => NotHonoured.because(format!("the protocol `{name}` is not served")),
    }
}
