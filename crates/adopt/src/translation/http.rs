//! `http.*` and `cors.*`: clients of HTTP.

use super::{
    document::{string, strings},
    item::Item,
    note::{
        Fate::{Honoured, NotHonoured, NotNeeded},
        Notes, Verdict,
    },
    site::Site,
};

const NO_EFFECT: &str = "without xrd.protocol for HTTP, xrootd does not read it";
const ONE_CERTIFICATE: &str = "both protocols have the certificate of xrd.tls or sec.protocol";

/// Reads the directive `xrd.protocol http[:PORT] LIBRARY`.
pub(super) fn take_protocol(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let port = match item.first().split_once(':').map(|(_, port)| port.trim_end_matches('+')) {
        None | Some("") => None,
        Some(port) => match port.parse() {
            Ok(port) => Some(port),
            Err(_) => return Verdict::malformed(),
        },
    };
    item.take(Some(port), &mut site.http.port)
}

/// Reads the directives `http.cert FILE`, `http.key FILE`, `http.cadir DIRECTORY` and `http.cipherfilter LIST`.
pub(super) fn take_tls(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let key = match item.name {
        "cert" => "tls.certificate",
        "key" => "tls.key",
        "cadir" => "tls.ca_dir",
        _ => "tls.ciphers",
    };
    if item.first().is_empty() {
        return Verdict::malformed();
    }
    let earlier = site.http.tls.insert(key, item.written(string(item.first())));
    item.overrides(earlier);
    Honoured.because("")
}

/// Reads the directive `http.tlsclientauth {on | off | defer}`.
pub(super) fn take_client_certificates(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let value = match item.first() {
        "on" | "defer" => "ask",
        "off" => "off",
        _ => return Verdict::malformed(),
    };
    let earlier = site.http.front.insert("client_certificates", item.written(string(value)));
    item.overrides(earlier);
    Honoured.because("")
}

/// Reads the directive `http.header2cgi HEADER NAME`.
pub(super) fn take_header(item: &mut Item<'_>, _: &mut Site) -> Verdict {
    match item.words {
        [header, "authz", ..] if header.eq_ignore_ascii_case("authorization") => {
            NotNeeded.because("tokens are read from the field Authorization")
        }
        [_, _, ..] => NotHonoured.because("fields of requests are not passed on to origins"),
        _ => Verdict::malformed(),
    }
}

/// Reads the directive `cors.origin URL...`.
pub(super) fn take_cors(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if item.words.is_empty() {
        return Verdict::malformed();
    }
    let http = &mut site.http;
    http.cors_origins.extend(item.words.iter().map(|origin| (*origin).to_owned()));
    http.front.insert("cors_origins", item.written(strings(&http.cors_origins)));
    Honoured.because("")
}

/// Settles the directives on HTTP, after those on TLS for all clients.
pub(super) fn settle(site: &mut Site, notes: &mut Notes) {
    let tls = std::mem::take(&mut site.http.tls);
    if site.http.port.is_none() {
        for note in tls.values().chain(site.http.front.values()).map(|written| written.note) {
            notes.decide(note, NotNeeded.because(NO_EFFECT));
        }
        site.http.front.clear();
        return;
    }
    let has_certificate = site.plain.contains_key("tls.certificate");
    for (key, written) in tls {
        let is_of_the_certificate = matches!(key, "tls.certificate" | "tls.key");
        if site.plain.contains_key(key) || has_certificate && is_of_the_certificate {
            let text = if is_of_the_certificate { ONE_CERTIFICATE } else { "both protocols have the same setting" };
            notes.decide(written.note, NotNeeded.because(text));
        } else {
            site.plain.insert(key, written);
        }
    }
}
