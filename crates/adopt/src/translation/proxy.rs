//! `pss.*`: the proxy in front of origins.

use super::{
    item::Item,
    note::Verdict,
    server,
    site::{FixedOrigin, Notes, Origin, Site, Written},
};
use forebay_types::Endpoint;

/// Names of the disk cache's library, its old name included.
const CACHE_LIBRARIES: [&str; 3] = ["default", "libXrdPfc", "libXrdFileCache"];

/// Schemes of servers that we are clients of.
const SERVED_SCHEMES: [&str; 2] = ["root", "xroot"];

/// Most tries, and most connections to a server, that the settings take.
const TRIES_MAX: u64 = 1000;
const STREAMS_MAX: u64 = 16;

pub(super) fn take(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Option<Verdict> {
    Some(match item.name {
        "origin" => take_origin(item, site, notes),
        "cachelib" => {
            let is_known = CACHE_LIBRARIES.iter().any(|library| item.first().contains(library));
            let verdict = item.take(is_known.then_some(()), &mut site.cache, notes);
            if is_known { verdict } else { Verdict::not_honoured("a cache other than XCache's") }
        }
        "permit" => take_permit(item, site),
        "export" => server::take_export(item, site),
        "setopt" => take_option(item, site, notes),
        _ => return None,
    })
}

/// `pss.origin [=[SCHEME,...]] [DESTINATION]`.
fn take_origin(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let is_forwarding = item.first().starts_with('=');
    let destination = if is_forwarding { item.rest() } else { item.words };
    let fixed = match destination {
        [] => None,
        [host, rest @ ..] => match read_destination(host, rest.first().copied()) {
            Some(origin) => Some(origin),
            None => return Verdict::malformed(),
        },
    };
    if fixed.is_none() && !is_forwarding {
        return Verdict::malformed();
    }
    site.origin.write(Origin { is_forwarding, fixed }, item.note, notes);
    if let Some(schemes) = item.first().strip_prefix('=') {
        let schemes = schemes.split(',').filter(|scheme| !scheme.is_empty() && !SERVED_SCHEMES.contains(scheme));
        let schemes: Vec<_> = schemes.collect();
        if !schemes.is_empty() {
            return Verdict::honoured(format!("only root:// is forwarded in this release, not {}", schemes.join(", ")));
        }
    }
    if destination.first().is_some_and(|host| host.contains('+')) {
        return Verdict::honoured("the addresses of the name are tried in turn");
    }
    Verdict::honoured("")
}

/// `HOST[+][:PORT]`, `HOST PORT`, `SCHEME://HOST[:PORT]`, or a directory.
fn read_destination(text: &str, port: Option<&str>) -> Option<FixedOrigin> {
    if text.starts_with('/') {
        return Some(FixedOrigin::Directory(text.to_owned()));
    }
    let (scheme, server) = text.split_once("://").unwrap_or(("root", text));
    if !SERVED_SCHEMES.contains(&scheme) {
        return Some(FixedOrigin::Unserved(text.to_owned()));
    }
    let server = server.trim_end_matches('/').replacen('+', "", 1);
    let endpoint: Endpoint = match port.filter(|_| !server.contains(':')) {
        Some(port) => format!("{server}:{port}").parse().ok()?,
        None => server.parse().ok()?,
    };
    Some(FixedOrigin::Server(endpoint))
}

/// `pss.permit [/] [*] HOST`: a slash is for paths, a star for object names, neither for both.
fn take_permit(item: Item<'_>, site: &mut Site) -> Verdict {
    let kinds = item.words.iter().take_while(|word| matches!(**word, "/" | "*" | "/*")).count();
    let (kinds, hosts) = item.words.split_at(kinds);
    let Some(host) = hosts.first() else { return Verdict::malformed() };
    if kinds == ["*"] {
        return Verdict::not_needed("it is about object names, which are not served");
    }
    if host.starts_with('@') || host.contains('/') {
        return Verdict::not_honoured("netgroups are not known: write their hosts to forwarding.allow");
    }
    site.permits.push(Written { value: (*host).to_owned(), note: item.note });
    Verdict::honoured("")
}

/// `pss.setopt NAME VALUE`: options of the client library.
fn take_option(item: Item<'_>, site: &mut Site, notes: &mut Notes) -> Verdict {
    let [name, value, ..] = item.words else { return Verdict::malformed() };
    let client = &mut site.client;
    match name.to_ascii_lowercase().as_str() {
        "connecttimeout" => item.take_time(value, &mut client.connect, notes),
        "requesttimeout" => item.take_time(value, &mut client.request, notes),
        "streamtimeout" => item.take_time(value, &mut client.stream, notes),
        "dataserverttl" => item.take_time(value, &mut client.idle, notes),
        "reconnectwait" => item.take_time(value, &mut client.pause, notes),
        "connectionretry" => item.take_number(value, 1..=TRIES_MAX, &mut client.tries, notes),
        "parstreamsperphyconn" | "parallelstreams" => {
            item.take_number(value, 1..=STREAMS_MAX, &mut client.parallel, notes)
        }
        "loadbalancerttl" => Verdict::not_needed("connections to redirectors are kept as those to data servers"),
        "redirectlimit" => Verdict::not_needed("redirects are limited to 16 in a row"),
        "parallelevtloop" | "workerthreads" => Verdict::not_needed("one set of threads serves all connections"),
        "debuglevel" | "debugtimestamp" => {
            Verdict::not_needed("logging.filter tells what is logged, forebay_origin=debug among it")
        }
        "dirlistall" | "dirlistdflt" => {
            Verdict::not_needed("a listing is asked of the origin as the client asks for it")
        }
        _ => Verdict::not_honoured(
            "an option of the client library without a setting here; see origin.* in the reference",
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        testing::{settings, translated, translated_whole},
        translation::Fate,
    };

    #[test]
    fn origins_are_named_in_many_ways() {
        for (text, origins) in [
            ("Host.Example", r#"origins = ["root://host.example:1094"]"#),
            ("host.example:1095", r#"origins = ["root://host.example:1095"]"#),
            ("host.example+:1095", r#"origins = ["root://host.example:1095"]"#),
            ("host.example 1095", r#"origins = ["root://host.example:1095"]"#),
            ("xroot://host.example:1095/", r#"origins = ["root://host.example:1095"]"#),
            ("[2001:db8::1]:1095", r#"origins = ["root://[2001:db8::1]:1095"]"#),
            ("/local/files", r#"directory = "/local/files""#),
        ] {
            let translation = translated(&format!("pss.origin {text}"));
            assert!(settings(&translation).contains(&origins), "{text}: {translation:?}");
        }
    }

    #[test]
    fn origins_that_cannot_be_asked_are_refused() {
        for text in ["https://host.example", "roots://host.example", "s3://bucket", "pelican://federation"] {
            let translation = translated(&format!("pss.origin {text}"));
            assert_eq!((translation.file, translation.refusals.len()), (None, 1), "{text}");
        }
        for text in ["", "host:port:1", ":1094"] {
            let translation = translated_whole(&format!("pss.cachelib default\noss.localroot /c\npss.origin {text}"));
            assert_eq!(translation.notes[2].fate, Fate::NotHonoured, "{text}");
            assert_eq!(translation.refusals.len(), 1);
        }
    }

    #[test]
    fn forwarding_allows_what_was_permitted() {
        let translation = translated("pss.origin =");
        assert!(settings(&translation).contains(&r#"allow = ["*:*"]"#));
        assert!(!settings(&translation).contains(&"[[export]]"));
        let translation = translated("pss.origin = origin.example\npss.permit / *.a\npss.permit b\npss.permit * c");
        assert!(settings(&translation).contains(&r#"allow = ["*.a:*", "b:*"]"#));
        assert!(settings(&translation).contains(&"[[export]]"));
        let translation = translated("pss.origin = https://origin.example");
        assert!(!settings(&translation).contains(&"[[export]]"));
        let translation = translated("pss.permit a");
        assert_eq!(translation.notes.last().unwrap().fate, Fate::NotNeeded);
        assert!(!settings(&translation).contains(&"[forwarding]"));
    }

    #[test]
    fn options_of_the_client_library_are_brought_into_range() {
        for (text, setting) in [
            ("ConnectTimeout 20", r#"connect_timeout = "20s""#),
            ("RequestTimeout 0", r#"deadline = "1s""#),
            ("StreamTimeout 99999999", r#"first_byte_timeout = "366d""#),
            ("ParStreamsPerPhyConn 64", "streams = 16"),
            ("ConnectionRetry 0", "attempts = 1"),
        ] {
            let translation = translated(&format!("pss.setopt {text}"));
            assert!(settings(&translation).contains(&setting), "{text}");
        }
        let translation = translated("pss.setopt ConnectTimeout soon\npss.setopt ConnectTimeout");
        assert!(translation.notes.iter().rev().take(2).all(|note| note.fate == Fate::NotHonoured));
    }
}
