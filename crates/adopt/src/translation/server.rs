//! `xrd.*`, `xrootd.*` and `all.*`: the server that clients see.

use super::{
    item::Item,
    note::{Fate, Verdict},
    site::{Export, Notes, Site, Written},
};

pub(super) fn take(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Option<Verdict> {
    Some(match item.name {
        "port" => take_port(item, site, notes),
        "export" => take_export(item, site),
        "sitename" => {
            let name = Some(item.first()).filter(|name| !name.is_empty()).map(str::to_owned);
            item.take(name, &mut site.name, notes)
        }
        "timeout" => take_timeouts(item, site, notes),
        "chksum" => take_checksums(item, site, notes),
        "allow" if matches!(item.words, ["host", "*"]) => Verdict::not_needed("everybody may connect"),
        "allow" => Verdict::unprotected("everybody may connect: keep others out with a firewall"),
        "role" if item.has("manager") || item.has("supervisor") || item.has("peer") => {
            Verdict::not_honoured("Forebay is no redirector: this instance must go on as xrootd")
        }
        "role" => Verdict::not_needed("Forebay is a caching proxy"),
        "tls" if matches!(item.first(), "none" | "off") => Verdict::not_needed("nothing is encrypted"),
        "tls" => Verdict::unprotected(
            "nothing is encrypted in this release: clients that insist on TLS are refused, and those that need not send \
             everything in the clear",
        ),
        "seclib" => Verdict::unprotected(UNAUTHENTICATED),
        "fslib" if item.words.iter().any(|word| word.contains("hrottle")) => {
            Verdict::not_honoured("clients are not throttled; server.requests_outstanding_max limits each connection")
        }
        "fslib" => Verdict::not_needed("there is one file system layer"),
        "protocol" | "prot" => take_protocol(item),
        _ => return None,
    })
}

/// What it means that clients are not authenticated.
pub(super) const UNAUTHENTICATED: &str =
    "nobody is authenticated in this release: whoever reaches the port reads everything";

/// `xrd.port [tls] {any|PORT}`.
fn take_port(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    match item.words {
        ["tls", ..] => Verdict::not_honoured("no port is for TLS in this release"),
        ["any", ..] => item.take(Some(0), &mut site.port, notes),
        words => item.take(words.first().and_then(|port| port.parse().ok()), &mut site.port, notes),
    }
}

/// `all.export PATH [OPTIONS]`.
pub(super) fn take_export(item: Item<'_>, site: &mut Site) -> Verdict {
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

/// `xrd.timeout [hail T] [idle T] [kill T] [read T]`.
fn take_timeouts(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let mut verdict =
        Verdict::not_needed("reads of a connection end by server.write_stall_max and server.login_time_max");
    if let Some(text) = item.behind("hail") {
        verdict = item.take_time(text, &mut site.login_time, notes);
    }
    match item.behind("idle") {
        Some("0") => Verdict::not_needed("idle connections are kept"),
        Some(text) => item.take_time(text, &mut site.idle_time, notes),
        None => verdict,
    }
}

/// `xrootd.chksum [max N] [chkcgi] NAME... [PROGRAM]`.
fn take_checksums(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let words = if item.first() == "max" { item.words.get(2..).unwrap_or_default() } else { item.words };
    let words: Vec<_> = words.iter().filter(|word| **word != "chkcgi").collect();
    let is_name = |word: &&&&str| !word.starts_with(['/', '-', '?']) && !word.contains(['=', '.']);
    let names: Vec<_> = words.iter().take_while(is_name).map(|word| (**word).to_owned()).collect();
    let has_program = words.len() > names.len();
    let verdict = item.take((!names.is_empty()).then_some(names), &mut site.checksums, notes);
    if has_program && verdict.fate == Fate::Honoured {
        return Verdict::honoured("checksums are asked of the origin; the program is not run");
    }
    verdict
}

/// `xrd.protocol NAME[:PORT] LIBRARY`.
fn take_protocol(item: Item<'_>) -> Verdict {
    match item.first().split(':').next().unwrap_or_default() {
        "xroot" | "xrootd" | "root" => Verdict::not_needed("root:// is always served, at server.listen"),
        "http" | "https" | "xrdhttp" | "XrdHttp" => {
            Verdict::not_honoured("clients that come by HTTP are not served in this release")
        }
        name => Verdict::not_honoured(format!("the protocol `{name}` is not served")),
    }
}

/// `setenv NAME = VALUE`.
pub(super) fn environment(name: &str) -> Verdict {
    match name {
        "X509_USER_PROXY" | "X509_USER_CERT" | "X509_USER_KEY" | "X509_CERT_DIR" | "BEARER_TOKEN"
        | "BEARER_TOKEN_FILE" => Verdict::not_honoured(
            "Forebay has no credentials for origins in this release: those that demand some refuse it",
        ),
        _ => Verdict::not_needed("no part of Forebay reads this variable"),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        testing::{settings, translated, translated_whole},
        translation::Fate,
    };

    fn fate(text: &str) -> Fate {
        translated(text).notes.last().unwrap().fate
    }

    #[test]
    fn what_protects_a_site_is_marked() {
        for text in [
            "sec.protocol gsi",
            "xrootd.seclib libXrdSec.so",
            "ofs.authorize",
            "ofs.authlib libXrdAccSciTokens.so",
            "acc.authdb /etc/authdb",
            "xrd.allow host *.site.org",
            "xrd.tls /etc/cert.pem",
            "xrootd.tls all",
        ] {
            assert_eq!(fate(text), Fate::Unprotected, "{text}");
            assert!(translated(text).is_unprotected());
        }
        for text in ["xrd.allow host *", "xrootd.tls none", "all.role server", "xrd.protocol xroot *"] {
            assert_eq!(fate(text), Fate::NotNeeded, "{text}");
        }
        for text in ["xrd.protocol http:80 libXrdHttp.so", "all.role manager", "xrd.port tls 1095", "all.export *"] {
            assert_eq!(fate(text), Fate::NotHonoured, "{text}");
        }
    }

    #[test]
    fn names_and_times_of_the_server_are_settings() {
        for (text, setting) in [
            ("xrd.port 2094", r#"listen = ["[::]:2094"]"#),
            ("xrd.port any", r#"listen = ["[::]:0"]"#),
            ("all.sitename A \"B\"", r#"site_name = "A""#),
            ("xrd.timeout idle 90m hail 20", r#"idle_time_max = "90min""#),
            ("xrd.timeout idle 90m hail 20", r#"login_time_max = "20s""#),
            ("xrootd.chksum max 2 chkcgi md5 adler32", r#"checksum_algorithms = ["md5", "adler32"]"#),
            ("xrootd.chksum adler32 /usr/bin/sum", r#"checksum_algorithms = ["adler32"]"#),
        ] {
            let translation = translated(text);
            assert!(settings(&translation).contains(&setting), "{text}: {:?}", settings(&translation));
        }
        assert!(!settings(&translated("xrd.timeout idle 0")).iter().any(|line| line.starts_with("idle_time")));
        assert_eq!(fate("xrd.port twelve"), Fate::NotHonoured);
        assert_eq!(fate("xrootd.chksum /usr/bin/sum"), Fate::NotHonoured);
    }

    #[test]
    fn exports_are_told_once() {
        let translation = translated("all.export /\nall.export /a/\nall.export /a r/o");
        let paths: Vec<_> = settings(&translation).into_iter().filter(|line| line.starts_with("path = \"/")).collect();
        assert_eq!(paths, [r#"path = "/c""#, r#"path = "/""#, r#"path = "/a""#]);
        let bare = translated_whole("pss.cachelib default\noss.localroot /c\npss.origin h");
        assert!(settings(&bare).contains(&r#"path = "/tmp""#));
    }

    #[test]
    fn writes_go_on_to_the_origin_where_they_did() {
        let translation = translated("all.export /a r/o\npfc.writethrough on");
        assert_eq!(settings(&translation).iter().filter(|line| **line == r#"writes = "redirect""#).count(), 1);
    }
}
