//! Authentication, authorization and TLS: `sec.*`, `acc.*`, `ofs.auth*`, `xrd.tls*`, `xrootd.tls`.

use super::{
    authdb,
    document::{string, strings},
    item::Item,
    lists::read_text,
    note::{
        Fate::{Honoured, NotHonoured, NotNeeded, Unprotected},
        Verdict,
    },
    scitokens,
    site::{Security, Site},
};
use std::net::IpAddr;

/// Certificate and key that `gsi` uses by default.
const GSI_FILES: [(&str, &str); 2] =
    [("tls.certificate", "/etc/grid-security/xrd/xrdcert.pem"), ("tls.key", "/etc/grid-security/xrd/xrdkey.pem")];
const SSS_KEYTAB: &str = "/etc/xrootd/sss.keytab";
const SCITOKENS_FILE: &str = "/etc/xrootd/scitokens.cfg";
const METHODS: [&str; 5] = ["gsi", "ztn", "sss", "unix", "host"];

/// Reads the directive `sec.protocol [DIRECTORY] NAME [OPTIONS]`.
pub(super) fn take_protocol(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let security = &mut site.security;
    security.notes.push(item.note);
    let words = if item.first().starts_with('/') { item.rest() } else { item.words };
    let [name, options @ ..] = words else { return Verdict::malformed() };
    let Some(method) = METHODS.into_iter().find(|method| method == name) else {
        security.others.push(item.note);
        return NotHonoured.because(format!("the protocol `{name}` is not supported: its clients need another one"));
    };
    if security.methods.iter().all(|known| known.value != method) {
        security.methods.push(item.written(method));
    }
    match method {
        "gsi" => {
            for (key, path) in GSI_FILES {
                security.gsi.entry(key).or_insert_with(|| item.written(string(path)));
            }
            take_gsi_options(options, item, security)
        }
        "sss" => {
            let mut after = options.iter().skip_while(|option| **option != "-s").skip(1);
            let keytab = after.next().copied().unwrap_or(SSS_KEYTAB);
            site.write("authentication.keytab", string(keytab), item);
            Honoured.because("")
        }
        _ => Honoured.because(""),
    }
}

/// Reads the directive `sec.protparm NAME OPTIONS`.
pub(super) fn take_parameters(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    site.security.notes.push(item.note);
    match item.words {
        ["gsi", options @ ..] => take_gsi_options(options, item, &mut site.security),
        _ => NotHonoured.because("options of this protocol are not converted: see [authentication]"),
    }
}

fn take_gsi_options(options: &[&str], item: &Item<'_>, security: &mut Security) -> Verdict {
    let mut odd = Vec::new();
    for option in options {
        let (name, value) = option.trim_start_matches('-').split_once(':').unwrap_or((option, ""));
        let setting = match (name, value) {
            ("cert", path) => Some(("tls.certificate", string(path))),
            ("key", path) => Some(("tls.key", string(path))),
            ("certdir", path) => Some(("tls.ca_dir", string(path))),
            ("crl", "0" | "ignore") => Some(("tls.crl", string("ignore"))),
            ("crl", "1" | "try") => Some(("tls.crl", string("try"))),
            ("crl", _) => Some(("tls.crl", string("require"))),
            ("vomsat", "0" | "ignore") => Some(("authentication.voms", string("ignore"))),
            ("vomsat", "2" | "require") => Some(("authentication.voms", string("require"))),
            // Attributes are extracted by default, and proxies of clients are requested if an origin gets them.
            ("vomsat" | "vomsfun" | "vomsfunparms" | "dlgpxy" | "exppxy" | "d" | "authzto", _) => None,
            ("gridmap", "/dev/null") | ("gmapopt", "0") => None,
            // The CA's certificates are always verified; ciphers and digests are those of the protocol.
            (
                "ca" | "md" | "cipher" | "crypto" | "trustdns" | "showdn" | "gmapto" | "srvnames" | "crlext"
                | "crlrefresh",
                _,
            ) => None,
            _ => {
                odd.push(*option);
                None
            }
        };
        if let Some((key, value)) = setting {
            security.gsi.insert(key, item.written(value));
        }
    }
    if odd.is_empty() {
        return Honoured.because("");
    }
    let odd = odd.join(" ");
    NotHonoured.because(format!(
        "without {odd}: names of certificates are not mapped to users; write grants by subject, vo, group or role"
    ))
}

/// Reads the directive `sec.protbind HOST [none | [only] NAME...]`.
pub(super) fn take_binding(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    site.security.notes.push(item.note);
    let [host, names @ ..] = item.words else { return Verdict::malformed() };
    let hosts = match *host {
        "localhost" => vec!["127.*", "::1"],
        host if host == "*" || host.trim_end_matches(['*', '.']).parse::<IpAddr>().is_ok() => vec![host],
        host if host.contains('*') && host.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'*')) => vec![host],
        _ => return NotHonoured.because("host names are not resolved: write a [[binding]] with the address as host"),
    };
    let names: Vec<_> =
        names.iter().filter(|name| !matches!(**name, "only" | "none")).map(|name| (*name).to_owned()).collect();
    for host in hosts {
        site.security.bindings.push(item.written((host.to_owned(), names.clone())));
    }
    Honoured.because("")
}

/// Reads the directive `sec.level [all|local|remote] [relaxed] LEVEL [force]`.
pub(super) fn take_level(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    site.security.notes.push(item.note);
    let levels = ["none", "compatible", "standard", "intense", "pedantic"];
    let Some(level) = item.words.iter().find(|word| levels.contains(word)) else { return Verdict::malformed() };
    site.write("authentication.signing", string(level), item);
    Honoured.because("for gsi clients without TLS")
}

/// Reads the directive `xrootd.seclib LIBRARY`.
pub(super) fn take_library(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    item.take(Some(()), &mut site.security.library)
}

/// Reads the directive `ofs.authorize`.
pub(super) fn take_authorize(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    item.take(Some(()), &mut site.security.authorizes)
}

/// Reads the directive `acc.authdb FILE`.
pub(super) fn take_authdb(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let path = item.first();
    let (grants, verdict) = match read_text(path, item.machine) {
        Ok(text) => {
            let (grants, problems) = authdb::read(path, &text);
            (Some(grants), covered(problems))
        }
        Err(reason) => {
            (None, NotHonoured.because(format!("{reason}: all access is denied until you write its grants")))
        }
    };
    item.take(Some(grants), &mut site.security.authdb);
    verdict
}

/// Reads the directive `ofs.authlib [++] LIBRARY [OPTIONS]`.
pub(super) fn take_authorization(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let named = |name: &str| item.words.iter().any(|word| word.contains(name));
    if named("Macaroons") {
        return NotHonoured.because("macaroons are not accepted: clients use the tokens of an [[issuer]]");
    }
    if !named("SciTokens") {
        return Unprotected
            .because("this plug-in is not loaded: write a [[grant]]; without one all clients read everything");
    }
    let path = item.words.iter().find_map(|word| word.strip_prefix("config=")).unwrap_or(SCITOKENS_FILE);
    let (issuers, verdict) = match read_text(path, item.machine) {
        Ok(text) => {
            let (issuers, problems) = scitokens::read(path, &text);
            (issuers, covered(problems))
        }
        Err(reason) => (
            Vec::new(),
            NotHonoured
                .because(format!("{reason}: no token is accepted until you write an [[issuer]] and a [[grant]]")),
        ),
    };
    item.take(Some(issuers), &mut site.security.issuers);
    verdict
}

fn covered(problems: Vec<String>) -> Verdict {
    if problems.is_empty() { Honoured.because("") } else { NotHonoured.because(problems.join("; ")) }
}

/// Reads the directive `xrd.tls CERTIFICATE [KEY] [OPTIONS]`.
pub(super) fn take_tls(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let [certificate, rest @ ..] = item.words else { return Verdict::malformed() };
    site.write("tls.certificate", string(certificate), item);
    if let Some(key) = rest.first().filter(|word| word.starts_with('/')) {
        site.write("tls.key", string(key), item);
    }
    Honoured.because("")
}

/// Reads the directive `xrd.tlsca {certdir DIRECTORY | certfile FILE | noverify} [OPTIONS]`.
pub(super) fn take_authorities(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    if let Some(directory) = item.after("certdir") {
        site.write("tls.ca_dir", string(directory), item);
    }
    if let Some("all" | "last") = item.after("crlcheck") {
        site.write("tls.crl", string("require"), item);
    }
    if item.words.contains(&"noverify") {
        site.write("tls.client_certificates", "false".to_owned(), item);
    }
    if item.words.contains(&"certfile") {
        return NotHonoured
            .because("authorities are read from a directory: write tls.ca_dir (openssl rehash names its files)");
    }
    Honoured.because("")
}

/// Reads the directive `xrootd.tls [capable] [-]USE...`.
pub(super) fn take_tls_use(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let (mut login, mut session, mut data) = (false, false, false);
    for word in item.words {
        let (is_on, name) = word.strip_prefix('-').map_or((true, *word), |name| (false, name));
        match name {
            "none" | "off" => return NotNeeded.because("connections are not encrypted"),
            "all" => (login, session, data) = (is_on, is_on, is_on),
            "login" => login = is_on,
            "session" => session = is_on,
            "data" => data = is_on,
            _ => {}
        }
    }
    let is_optional = item.words.contains(&"capable");
    let policy = match (login, session, data) {
        _ if is_optional => "capable",
        (true, _, true) => "all",
        (false, _, true) => "data",
        (true, _, false) => "login",
        (false, true, false) => "session",
        (false, false, false) => "capable",
    };
    site.write("tls.policy", string(policy), item);
    Honoured.because(if is_optional { "clients use TLS if they request it, as with roots:// URLs" } else { "" })
}

/// Reads the directive `pss.persona {client|server} [OPTIONS]`.
pub(super) fn take_persona(item: &mut Item<'_>, site: &mut Site) -> Verdict {
    match item.first() {
        "client" => item.take(Some(()), &mut site.security.persona),
        "server" => NotNeeded.because("requests to origins have the credentials of this server"),
        _ => Verdict::malformed(),
    }
}

/// Reads the directive `setenv NAME = VALUE`.
pub(super) fn environment(name: &str, item: &mut Item<'_>, site: &mut Site) -> Verdict {
    let (method, key) = match name {
        "X509_USER_PROXY" => ("proxy", "proxy"),
        "X509_USER_CERT" => ("certificate", "certificate"),
        "X509_USER_KEY" => ("certificate", "key"),
        "BEARER_TOKEN_FILE" => ("token", "token"),
        "X509_CERT_DIR" => {
            site.plain.entry("tls.ca_dir").or_insert_with(|| item.written(string(item.first())));
            return Honoured.because("");
        }
        "BEARER_TOKEN" => {
            return NotHonoured
                .because("not converted: write it to a file, and a [[credential]] with method = \"token\"");
        }
        _ => return NotNeeded.because("Forebay does not read this variable"),
    };
    let credential = &mut site.security.credential;
    if credential.get("method").is_some_and(|earlier| earlier.value != string(method)) {
        return NotHonoured.because("an origin gets one credential: write another [[credential]]");
    }
    credential.insert("method", item.written(string(method)));
    credential.insert(key, item.written(string(item.first())));
    Honoured.because("")
}

/// The methods of `[[binding]]` that are configured.
pub(super) fn bound(names: &[String], methods: &[&str]) -> String {
    strings(names.iter().filter(|name| methods.contains(&name.as_str())))
}
