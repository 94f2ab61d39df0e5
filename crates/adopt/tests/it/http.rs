//! `http.*` and `cors.*`.

use crate::translated::{settings, translated};
use forebay_adopt::Fate;

const SERVED: &str = "xrd.port 1095\nxrd.protocol http:1095 libXrdHttp.so\n";

#[test]
fn clients_of_http_are_served_where_xrootd_serves_them() {
    for (text, expected) in [
        ("", vec!["shared = false"]),
        ("xrd.protocol XrdHttp libXrdHttp.so", vec!["shared = true"]),
        ("xrd.protocol http:1094 libXrdHttp.so", vec!["shared = true"]),
        (SERVED, vec!["shared = true"]),
        ("xrd.protocol https:8443+ libXrdHttp.so", vec!["shared = false", r#"listen = ["[::]:8443"]"#]),
        (
            "xrd.protocol http libXrdHttp.so\nhttp.tlsclientauth off\ncors.origin https://a\ncors.origin https://b",
            vec!["shared = true", r#"client_certificates = "off""#, r#"cors_origins = ["https://a", "https://b"]"#],
        ),
    ] {
        let translation = translated(text);
        let all = settings(&translation);
        let own = all.iter().skip_while(|line| **line != "[http]").skip(1).take_while(|line| !line.starts_with('['));
        let mut own: Vec<_> = own.copied().collect();
        own.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(own, expected, "{text}");
    }
}

#[test]
fn its_certificate_is_that_of_all_clients_unless_another_directive_names_one() {
    let files = "http.cert /h.pem\nhttp.key /h.key\nhttp.cadir /ca\nhttp.cipherfilter HIGH";
    let translation = translated(&format!("{SERVED}{files}"));
    for setting in [r#"certificate = "/h.pem""#, r#"key = "/h.key""#, r#"ca_dir = "/ca""#, r#"ciphers = "HIGH""#] {
        assert!(settings(&translation).contains(&setting), "{setting}");
    }
    let translation = translated(&format!("{SERVED}xrd.tls /x.pem\n{files}"));
    assert!(settings(&translation).contains(&r#"certificate = "/x.pem""#));
    assert!(!settings(&translation).iter().any(|line| line.contains("/h.")));
    // xrootd does not read them.
    let translation = translated(&format!("{files}\nhttp.tlsclientauth on"));
    assert!(!settings(&translation).contains(&"[tls]"));
    assert!(translation.notes.iter().rev().take(5).all(|note| note.fate == Fate::NotNeeded));
}

#[test]
fn each_directive_of_a_pelican_cache_has_a_fate() {
    for (text, fate) in [
        ("http.header2cgi Authorization authz", Fate::NotNeeded),
        ("http.header2cgi X-Pelican-Timeout pelican.timeout", Fate::NotHonoured),
        ("http.header2cgi Authorization", Fate::NotHonoured),
        ("http.secxtractor /usr/lib64/libXrdVoms.so", Fate::NotNeeded),
        ("http.staticpreload http://static/robots.txt /r", Fate::NotHonoured),
        ("http.exthandler xrdpelican libXrdHttpPelican.so", Fate::NotHonoured),
        ("http.listingdeny yes", Fate::Unprotected),
        ("http.listingdeny no", Fate::NotNeeded),
        ("http.tlsclientauth maybe", Fate::NotHonoured),
        ("cors.origin", Fate::NotHonoured),
        ("http.gridmap /etc/grid-security/grid-mapfile", Fate::NotHonoured),
        ("http.unknown", Fate::Unknown),
    ] {
        let translation = translated(&format!("{SERVED}{text}"));
        assert_eq!(translation.notes.last().unwrap().fate, fate, "{text}");
    }
}
