//! `xrd.*`, `xrootd.*` and `all.*`: the server.

use super::{
    document::strings,
    item::Item,
    note::Verdict,
    site::{Export, Form, Notes, Site, Written},
};

/// Reads the directive `xrd.allow {host|netgroup} NAME`.
pub(super) fn take_allow(item: Item<'_>, _: &mut Site, _: &mut Notes) -> Verdict {
    if matches!(item.words, ["host", "*"]) {
        return Verdict::not_needed("all hosts may connect");
    }
    Verdict::unprotected("all hosts may connect: restrict access with a firewall")
}

/// Reads the directive `all.role ROLE...`.
pub(super) fn take_role(item: Item<'_>, _: &mut Site, _: &mut Notes) -> Verdict {
    if ["manager", "supervisor", "peer"].iter().any(|role| item.words.contains(role)) {
        return Verdict::not_honoured("Forebay is not a redirector: keep xrootd for this instance");
    }
    Verdict::not_needed("Forebay is a caching proxy")
}

/// `xrd.tls CERTIFICATE...`, `xrootd.tls REQUIREMENTS...`.
pub(super) fn take_tls(item: Item<'_>, _: &mut Site, _: &mut Notes) -> Verdict {
    if matches!(item.first(), "none" | "off") {
        return Verdict::not_needed("connections are not encrypted");
    }
    Verdict::unprotected(
        "this release does not encrypt connections: clients that require TLS are refused, and others send all data in the clear",
    )
}

/// Reads the directive `xrootd.fslib LIBRARY...`.
pub(super) fn take_file_system(item: Item<'_>, _: &mut Site, _: &mut Notes) -> Verdict {
    if item.words.iter().any(|word| word.contains("hrottle")) {
        return Verdict::not_honoured(
            "clients are not throttled; server.requests_outstanding_max limits each connection",
        );
    }
    Verdict::not_needed("there is one file system layer")
}

/// Reads the directive `xrd.port [tls] {any|PORT}`.
pub(super) fn take_port(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    match item.words {
        ["tls", ..] => Verdict::not_honoured("this release has no port for TLS"),
        ["any", ..] => item.take(Some(0), &mut site.port, notes),
        words => item.take(words.first().and_then(|port| port.parse().ok()), &mut site.port, notes),
    }
}

/// Reads the directive `all.export PATH [OPTIONS]`.
pub(super) fn take_export(item: Item<'_>, site: &mut Site, _: &mut Notes) -> Verdict {
    let path = item.first();
    if path == "*" || !path.starts_with('/') {
        return Verdict::not_honoured("object names, which do not begin with a slash, are not served");
    }
    let path = trimmed(path);
    if site.exports.iter().any(|export| export.value.path == path) {
        return Verdict::not_needed("exported by an earlier line");
    }
    let is_read_only =
        item.rest().iter().any(|option| matches!(*option, "r/o" | "forcero" | "notwritable" | "readonly"));
    site.exports.push(Written { value: Export { path: path.to_owned(), is_read_only }, note: item.note });
    Verdict::honoured("")
}

fn trimmed(path: &str) -> &str {
    match path.trim_end_matches('/') {
        "" => "/",
        path => path,
    }
}

/// Reads the directive `xrd.timeout [hail T] [idle T] [kill T] [read T]`.
pub(super) fn take_timeouts(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let mut verdict = Verdict::not_needed("see server.write_stall_max and server.login_time_max");
    if let Some(text) = item.after("hail") {
        verdict = site.set("server.login_time_max", Form::Time, text, item.note, notes);
    }
    match item.after("idle") {
        Some("0") => Verdict::not_needed("idle connections are kept"),
        Some(text) => site.set("server.idle_time_max", Form::Time, text, item.note, notes),
        None => verdict,
    }
}

/// Reads the directive `xrootd.chksum [max N] [chkcgi] NAME... [PROGRAM]`.
pub(super) fn take_checksums(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let words = if item.first() == "max" { item.words.get(2..).unwrap_or_default() } else { item.words };
    let words: Vec<_> = words.iter().filter(|word| **word != "chkcgi").collect();
    let is_name = |word: &&&&str| !word.starts_with(['/', '-', '?']) && !word.contains(['=', '.']);
    let names: Vec<_> = words.iter().take_while(is_name).map(|word| (**word).to_owned()).collect();
    let has_program = words.len() > names.len();
    if names.is_empty() {
        return Verdict::malformed();
    }
    site.write("server.checksum_algorithms", strings(names), item.note, notes);
    Verdict::honoured(if has_program { "checksums are requested from the origin; the program is not run" } else { "" })
}

/// Reads the directive `xrd.protocol NAME[:PORT] LIBRARY`.
pub(super) fn take_protocol(item: Item<'_>, _: &mut Site, _: &mut Notes) -> Verdict {
    match item.first().split(':').next().unwrap_or_default() {
        "xroot" | "xrootd" | "root" => Verdict::not_needed("root:// is always served, on server.listen"),
        "http" | "https" | "xrdhttp" | "XrdHttp" => Verdict::not_honoured("this release does not serve HTTP clients"),
        name => Verdict::not_honoured(format!("the protocol `{name}` is not served")),
    }
}

/// Reads the directive `setenv NAME = VALUE`.
pub(super) fn environment(name: &str) -> Verdict {
    match name {
        "X509_USER_PROXY" | "X509_USER_CERT" | "X509_USER_KEY" | "X509_CERT_DIR" | "BEARER_TOKEN"
        | "BEARER_TOKEN_FILE" => {
            Verdict::not_honoured("this release has no credentials for origins: origins that require some refuse it")
        }
        _ => Verdict::not_needed("Forebay does not read this variable"),
    }
}
