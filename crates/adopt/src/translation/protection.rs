//! Settles authentication and authorization, which follow from several directives, so that no client gets more than before.

use super::{
    authdb::Grant,
    document::string,
    http,
    note::{
        Fate::{NotHonoured, NotNeeded, Unprotected},
        Notes,
    },
    security::bound,
    site::{Security, Site, Written},
};

/// The access control of clients, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct Protection {
    pub(super) methods: Vec<&'static str>,
    /// Hosts and methods in TOML.
    pub(super) bindings: Vec<Written<(String, String)>>,
    /// Each with the note of its directive, and the reason if there is none.
    pub(super) grants: Vec<(Grant, Option<usize>, &'static str)>,
    /// The directive by which origins get the credentials of clients.
    pub(super) client_credential: Option<usize>,
}

const DENIED: &str = "No grant could be converted: all access is denied.";
const NO_AUTHORIZATION: &str = "No ofs.authorize: all clients that xrootd authenticates may read.";

/// Settles the directives on clients; call it once.
pub(super) fn settle(site: &mut Site, notes: &mut Notes) -> Protection {
    let methods = settle_methods(site, notes);
    settle_credential(&mut site.security, notes);
    // A certificate may hold its key.
    let has_certificate = site.plain.contains_key("tls.certificate");
    for (key, value) in std::mem::take(&mut site.security.gsi) {
        if !(has_certificate && matches!(key, "tls.certificate" | "tls.key")) {
            site.plain.entry(key).or_insert(value);
        }
    }
    http::settle(site, notes);
    if !site.plain.contains_key("tls.certificate") {
        site.plain.remove("tls.key");
        if let Some(Written { note, .. }) = site.plain.remove("tls.policy") {
            let text = "no xrd.tls names a certificate: write tls.certificate, tls.key and tls.policy";
            notes.decide(note, Unprotected.because(text));
        }
    }
    let security = &site.security;
    let mut bindings = Vec::new();
    if !methods.is_empty() {
        let bind = |Written { value: (host, names), note }: &Written<(String, Vec<String>)>| Written {
            value: (host.clone(), bound(names, &methods)),
            note: *note,
        };
        bindings.extend(security.bindings.iter().map(bind));
    }
    // The first match decides, and all hosts match this one.
    bindings.sort_by_key(|binding| binding.value.0 == "*");
    let grants = settle_grants(security, !methods.is_empty(), notes);
    let mut client_credential = security.persona.as_ref().map(|persona| persona.note);
    if let Some(note) = client_credential {
        if methods.is_empty() {
            notes
                .decide(note, NotHonoured.because("clients are not authenticated: their requests have no credentials"));
            client_credential = None;
        } else if methods.contains(&"gsi") {
            site.plain.insert("authentication.delegation", Written { value: "true".to_owned(), note });
        }
    }
    Protection { methods, bindings, grants, client_credential }
}

fn settle_credential(security: &mut Security, notes: &mut Notes) {
    let credential = &mut security.credential;
    let (is_certificate, has_key) = (credential.contains_key("certificate"), credential.contains_key("key"));
    let reason = match &security.persona {
        Some(_) => "origins get the credentials of clients, by pss.persona: write another [[credential]]",
        None if is_certificate != has_key => "a certificate needs its key: write a [[credential]] with both",
        None => return,
    };
    for note in std::mem::take(credential).into_values().map(|written| written.note) {
        notes.decide(note, NotHonoured.because(reason));
    }
}

fn settle_methods(site: &mut Site, notes: &mut Notes) -> Vec<&'static str> {
    let Site { security, plain, .. } = site;
    let has_issuers =
        security.authorizes.is_some() && security.issuers.as_ref().is_some_and(|issuers| !issuers.value.is_empty());
    let Some(library) = security.library.as_ref().map(|library| library.note) else {
        for note in security.notes.drain(..) {
            notes.decide(note, NotNeeded.because("without xrootd.seclib, xrootd authenticates no client"));
        }
        security.gsi.clear();
        plain.remove("authentication.keytab");
        plain.remove("authentication.signing");
        // Tokens of requests count if clients may log in by them; others log in by their address, that is, without proof.
        return if has_issuers { vec!["ztn", "host"] } else { Vec::new() };
    };
    if let Some(at) = security.methods.iter().position(|method| method.value == "ztn" && !has_issuers) {
        let text = "no issuer of tokens is configured: write an [[issuer]], and \"ztn\" in authentication.methods";
        notes.decide(security.methods.remove(at).note, NotHonoured.because(text));
    }
    let mut methods: Vec<_> = security.methods.iter().map(|method| method.value).collect();
    if methods.is_empty() && security.notes.is_empty() {
        methods.push("host");
    }
    if has_issuers && !methods.contains(&"ztn") {
        methods.push("ztn");
    }
    if methods.is_empty() {
        let text =
            "no protocol could be converted: all access is denied until you write [authentication] and [[grant]]";
        notes.decide(library, NotHonoured.because(text));
    }
    methods
}

fn settle_grants(
    security: &Security,
    is_authenticated: bool,
    notes: &mut Notes,
) -> Vec<(Grant, Option<usize>, &'static str)> {
    let everything =
        |rights: &[&'static str]| Grant { path: "/".to_owned(), rights: rights.to_vec(), ..Grant::default() };
    let Some(authorizes) = &security.authorizes else {
        let unused =
            [security.authdb.as_ref().map(|file| file.note), security.issuers.as_ref().map(|issuers| issuers.note)];
        for note in unused.into_iter().flatten() {
            notes.decide(note, NotNeeded.because("without ofs.authorize it has no effect"));
        }
        return match &security.library {
            Some(_) if is_authenticated => vec![(everything(&["read", "list"]), None, NO_AUTHORIZATION)],
            Some(_) => vec![(everything(&[]), None, DENIED)],
            None => Vec::new(),
        };
    };
    let mut grants = Vec::new();
    if let Some(Written { value: issuers, note }) = &security.issuers {
        grants.extend(issuers.iter().flat_map(|issuer| &issuer.grants).map(|grant| (grant.clone(), Some(*note), "")));
    }
    if let Some(Written { value: Some(file), note }) = &security.authdb {
        grants.extend(file.iter().map(|grant| (grant.clone(), Some(*note), "")));
    }
    if security.authdb.is_none() && security.issuers.is_none() {
        let text = "no acc.authdb: all access is denied until you write the grants of the default file";
        notes.decide(authorizes.note, NotHonoured.because(text));
    }
    if grants.is_empty() {
        grants.push((everything(&[]), None, DENIED));
    }
    grants
}

impl Protection {
    /// The settings of a grant in TOML.
    pub(super) fn settings(grant: &Grant) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        if !grant.name.is_empty() {
            settings.push(("name", string(&grant.name)));
        }
        settings.extend([("path", string(&grant.path)), ("rights", super::document::strings(&grant.rights))]);
        settings.extend(grant.who.iter().map(|(key, value)| (*key, string(value))));
        if grant.has_scopes {
            settings.push(("scopes", string("grant")));
        }
        settings
    }
}
