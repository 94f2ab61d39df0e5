//! Who clients are, and what they may do.

use crate::{
    checker::Checker,
    config::TlsConfig,
    convert::parse_path,
    issuers::read_issuers,
    raw::{Raw, RawAuthentication, RawBinding, RawGrant},
};
use forebay_auth::{
    Binding, Bindings, Conditions, GRANTS_MAX, Grant, Grants, Method, PathTemplate, Right, Rights, ScopeUse,
    SecurityProtocol, SigningLevel, x509::Use,
};
use forebay_net::CrlPolicy;
use forebay_trust::{SecurityOptions, VomsUse};
use std::convert::Infallible;
use toml::Spanned;

/// Longest pattern or name in bytes: every decision compares with it.
pub(crate) const PATTERN_LEN_MAX: usize = 1024;

pub(crate) fn read_security(raw: &Raw, tls: &TlsConfig, checker: &mut Checker<'_>) -> SecurityOptions {
    let mut config = SecurityOptions::default();
    config.trust.crls = match tls.trust.crl {
        CrlPolicy::Ignore => Use::Ignore,
        CrlPolicy::Try => Use::IfPresent,
        CrlPolicy::Require => Use::Require,
    };
    read_authentication(&raw.authentication, &mut config, checker);
    let bindings: Vec<_> =
        raw.binding.iter().filter_map(|table| read_binding(table, &config.methods, checker)).collect();
    match Bindings::new(bindings) {
        Ok(bindings) => config.bindings = bindings,
        Err(error) => checker.refuse("binding", raw.binding.first().map(Spanned::span).as_ref(), error),
    }
    read_issuers(&raw.issuer, &mut config, checker);
    read_grants(&raw.grant, &mut config, checker);
    check_together(raw, &config, tls, checker);
    config
}

fn read_authentication(raw: &RawAuthentication, config: &mut SecurityOptions, checker: &mut Checker<'_>) {
    if let Some(methods) = checker.read_list("authentication.methods", raw.methods.as_ref(), parse_protocol) {
        config.methods = methods;
    }
    checker.set(&mut config.voms, "authentication.voms", raw.voms.as_ref(), |text| {
        named(text, [("ignore", VomsUse::Ignore), ("extract", VomsUse::Extract), ("require", VomsUse::Require)])
    });
    checker.set(&mut config.voms_dir, "authentication.voms_dir", raw.voms_dir.as_ref(), |text| parse_path(text));
    let signing_policy = raw.signing_policy.as_ref();
    checker.set(&mut config.trust.signing_policies, "authentication.signing_policy", signing_policy, |text| {
        named(text, [("ignore", Use::Ignore), ("if-present", Use::IfPresent), ("require", Use::Require)])
    });
    let limited = raw.limited_proxies.as_ref();
    checker
        .set(&mut config.trust.allow_limited, "authentication.limited_proxies", limited, |&on| Ok::<_, Infallible>(on));
    let unsigned = raw.unsigned_gsi.as_ref();
    checker
        .set(&mut config.allows_unsigned_gsi, "authentication.unsigned_gsi", unsigned, |&on| Ok::<_, Infallible>(on));
    checker.set(&mut config.signing, "authentication.signing", raw.signing.as_ref(), |text| {
        named(text, SigningLevel::ALL.map(|level| (level.as_str(), level)))
    });
    config.keys_dir = checker.read("authentication.keys_dir", raw.keys_dir.as_ref(), |text| parse_path(text));
    let delegation = raw.delegation.as_ref();
    checker.set(&mut config.takes_delegations, "authentication.delegation", delegation, |&on| Ok::<_, Infallible>(on));
    config.keytab = checker.read("authentication.keytab", raw.keytab.as_ref(), |text| parse_path(text));
    let plain = raw.plain_tokens.as_ref();
    checker.set(&mut config.takes_plain_tokens_on_loopback, "authentication.plain_tokens", plain, |text| {
        named(text, [("never", false), ("loopback", true)])
    });
    let interval = raw.refresh_interval.as_ref();
    checker.set_duration(&mut config.refresh_interval, "authentication.refresh_interval", interval);
}

fn read_binding(
    table: &Spanned<RawBinding>,
    configured: &[SecurityProtocol],
    checker: &mut Checker<'_>,
) -> Option<Binding> {
    let raw = table.get_ref();
    let methods = needed("binding.methods", raw.methods.as_ref(), table, checker);
    let protocols = checker.read_list("binding.methods", methods, |text| {
        let protocol = parse_protocol(text)?;
        let is_configured = configured.contains(&protocol);
        is_configured.then_some(protocol).ok_or_else(|| format!("`{text}` is not one of authentication.methods"))
    });
    let hosts = needed("binding.host", raw.host.as_ref(), table, checker);
    let hosts = checker.read("binding.host", hosts, |text| parse_address_pattern(text));
    Some(Binding { hosts: hosts?, protocols: protocols? })
}

fn read_grants(raw: &[Spanned<RawGrant>], config: &mut SecurityOptions, checker: &mut Checker<'_>) {
    if raw.is_empty() {
        return;
    }
    let grants: Vec<_> = raw.iter().filter_map(|table| read_grant(table, checker)).collect();
    match Grants::new(grants) {
        Ok(grants) => config.grants = Some(grants),
        Err(error) => checker.refuse("grant", raw.get(GRANTS_MAX).map(Spanned::span).as_ref(), error),
    }
}

fn read_grant(table: &Spanned<RawGrant>, checker: &mut Checker<'_>) -> Option<Grant> {
    let raw = table.get_ref();
    let mut text = |setting, raw: Option<&Spanned<String>>| checker.read(setting, raw, |text| parse_text(text));
    let mut who = Conditions {
        methods: Vec::new(),
        user: text("grant.user", raw.user.as_ref()),
        subject: text("grant.subject", raw.subject.as_ref()),
        issuer: text("grant.issuer", raw.issuer.as_ref()),
        vo: text("grant.vo", raw.vo.as_ref()),
        group: text("grant.group", raw.group.as_ref()),
        role: text("grant.role", raw.role.as_ref()),
        host: None,
    };
    let name = text("grant.name", raw.name.as_ref()).unwrap_or_default();
    who.host = checker.read("grant.host", raw.host.as_ref(), |text| parse_address_pattern(text));
    let method = |name: &str| {
        let all = Method::ALL.map(Method::as_str).join(", ");
        Method::from_name(name).ok_or_else(|| format!("`{name}` is no method: write some of {all}"))
    };
    who.methods = checker.read_list("grant.methods", raw.methods.as_ref(), method).unwrap_or_default();
    let right = |name: &str| {
        let all = Right::ALL.map(Right::as_str).join(", ");
        Right::from_name(name).ok_or_else(|| format!("`{name}` is no right: write some of {all}"))
    };
    let rights = needed("grant.rights", raw.rights.as_ref(), table, checker);
    let rights = checker.read_list("grant.rights", rights, right).map(Rights::from_iter);
    let path = needed("grant.path", raw.path.as_ref(), table, checker);
    let path = checker.read("grant.path", path, |text| PathTemplate::parse(text));
    let mut scopes = ScopeUse::default();
    checker.set(&mut scopes, "grant.scopes", raw.scopes.as_ref(), |text| {
        named(text, [ScopeUse::Narrow, ScopeUse::Grant].map(|scopes| (scopes.as_str(), scopes)))
    });
    Some(Grant { name, who, path: path?, rights: rights?, scopes })
}

/// What no single setting can be blamed for.
fn check_together(raw: &Raw, config: &SecurityOptions, tls: &TlsConfig, checker: &mut Checker<'_>) {
    let uses = |protocol| config.methods.contains(&protocol);
    let methods = raw.authentication.methods.as_ref().map(Spanned::span);
    let methods = methods.as_ref();
    if uses(SecurityProtocol::Gsi) && tls.clients.is_none() {
        checker.refuse(
            "authentication.methods",
            methods,
            "\"gsi\" needs tls.certificate and tls.key: the certificate of this host",
        );
    }
    let asks_certificates = tls.clients.as_ref().is_some_and(|clients| clients.files.trust.is_some());
    if uses(SecurityProtocol::Tls) && !asks_certificates {
        checker.refuse(
            "authentication.methods",
            methods,
            "\"tls\" needs tls.certificate, tls.key, tls.ca_dir and tls.client_certificates: clients must be asked for theirs",
        );
    }
    if uses(SecurityProtocol::Sss) && config.keytab.is_none() {
        checker.refuse(
            "authentication.methods",
            methods,
            "\"sss\" needs authentication.keytab: the file with the shared secrets",
        );
    }
    if uses(SecurityProtocol::Ztn) && raw.issuer.is_empty() {
        checker.refuse("authentication.methods", methods, "\"ztn\" needs an [[issuer]]: whose tokens are accepted");
    }
    let origin_checks = raw
        .forwarding
        .origin_check
        .iter()
        .chain(raw.export.iter().filter_map(|export| export.get_ref().origin_check.as_ref()));
    let shows_clients = raw
        .credential
        .iter()
        .any(|table| table.get_ref().method.as_ref().is_some_and(|method| method.get_ref() == "client"));
    if config.takes_delegations && !shows_clients && !origin_checks.into_iter().any(|on| *on.get_ref()) {
        checker.refuse(
            "authentication.delegation",
            raw.authentication.delegation.as_ref().map(Spanned::span).as_ref(),
            "no origin would be shown the proxies: write a [[credential]] with method = \"client\", or export.origin_check",
        );
    }
    if !config.methods.is_empty() && raw.grant.is_empty() {
        checker.refuse(
            "authentication.methods",
            methods,
            "clients are asked who they are, but nothing says what they may do: write a [[grant]]",
        );
    }
}

/// A setting that a table must have.
pub(crate) fn needed<'a, R, T>(
    setting: &str,
    raw: Option<&'a Spanned<R>>,
    table: &Spanned<T>,
    checker: &mut Checker<'_>,
) -> Option<&'a Spanned<R>> {
    if raw.is_none() {
        let name = checker.source().name(setting);
        checker.refuse(setting, Some(&table.span()), format_args!("{name} is missing"));
    }
    raw
}

pub(crate) fn parse_text(text: &str) -> Result<String, String> {
    let is_good = !text.is_empty() && text.len() <= PATTERN_LEN_MAX && !text.contains(char::is_control);
    is_good.then(|| text.to_owned()).ok_or_else(|| format!("write 1 to {PATTERN_LEN_MAX} bytes on one line"))
}

/// A pattern of addresses. Names are not looked up, so one would never match.
pub(crate) fn parse_address_pattern(text: &str) -> Result<String, String> {
    let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'*');
    let is_good = !text.is_empty() && text.len() <= PATTERN_LEN_MAX && text.bytes().all(is_of_address);
    is_good.then(|| text.to_owned()).ok_or_else(|| {
        format!(
            "`{}` is no address: write one, with `*` for any run of characters, such as \"192.0.2.*\"",
            text.escape_default()
        )
    })
}

fn parse_protocol(text: &str) -> Result<SecurityProtocol, String> {
    named(text, SecurityProtocol::ALL.map(|protocol| (protocol.as_str(), protocol)))
}

/// What `text` names.
pub(crate) fn named<T: Copy, const N: usize>(text: &str, names: [(&'static str, T); N]) -> Result<T, String> {
    let found = names.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let all: Vec<_> = names.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        format!("`{}` is not known: write one of {}", text.escape_default(), all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use forebay_auth::{Identity, Permitted, UnixTime};
    use forebay_types::Lfn;
    use std::path::Path;

    fn parse(text: &str) -> Result<SecurityOptions, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n{text}");
        Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config.security)
    }

    #[test]
    fn without_a_word_everybody_may_do_everything_and_nobody_is_asked() {
        let config = parse("").unwrap();
        assert!(config.methods.is_empty() && config.grants.is_none());
    }

    #[test]
    fn grants_say_who_may_do_what() {
        let config = parse(
            "[authentication]\nmethods = [\"unix\"]\n\
             [[grant]]\npath = \"/atlas/user/{user}\"\nrights = [\"read\"]\nmethods = [\"unix\"]\n\
             [[grant]]\npath = \"/atlas/secret\"\nrights = []\n",
        )
        .unwrap();
        assert_eq!(config.methods, [SecurityProtocol::Unix]);
        let grants = config.grants.unwrap();
        let ann = Identity { user: Some("ann".to_owned()), ..Identity::of(Method::Unix, "h") };
        for (path, is_allowed) in [("/atlas/user/ann/f", true), ("/atlas/user/bob/f", false), ("/atlas/secret", false)]
        {
            let decision = grants.decide(&ann, &Lfn::parse(path).unwrap(), Right::Read, UnixTime(0));
            assert_eq!(decision.is_allowed, is_allowed, "{path}: {decision}");
        }
    }

    #[test]
    fn bindings_are_read() {
        let config = parse(
            "[authentication]\nmethods = [\"ztn\"]\nplain_tokens = \"loopback\"\n\
             [[binding]]\nhost = \"10.1.*\"\nmethods = []\n\
             [[issuer]]\nurl = \"https://i.example.org/\"\n\
             [[grant]]\npath = \"/store\"\nrights = [\"read\"]\nscopes = \"grant\"\n",
        )
        .unwrap();
        assert_eq!(config.bindings.permitted("10.1.2.3", None, &config.methods, true), Permitted::Everybody);
        assert!(config.takes_plain_tokens_on_loopback);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_where_it_stands() {
        for (text, problem) in [
            ("[authentication]\nmethods = [\"krb5\"]", "is not known"),
            ("[authentication]\nmethods = [\"unix\"]", "write a [[grant]]"),
            (
                "[authentication]\nmethods = [\"sss\"]\n[[grant]]\npath = \"/\"\nrights = []",
                "needs authentication.keytab",
            ),
            ("[authentication]\nmethods = [\"ztn\"]\n[[grant]]\npath = \"/\"\nrights = []", "needs an [[issuer]]"),
            ("[authentication]\nmethods = [\"tls\"]\n[[grant]]\npath = \"/\"\nrights = []", "tls.client_certificates"),
            ("[authentication]\nvoms = \"maybe\"", "write one of \"ignore\""),
            ("[[grant]]\npath = \"/a\"", "grant.rights"),
            ("[[grant]]\nrights = [\"read\"]", "grant.path"),
            ("[[grant]]\npath = \"/a/{who}\"\nrights = []", "{"),
            ("[[grant]]\npath = \"/a\"\nrights = [\"write\"]", "is no right"),
            ("[[grant]]\npath = \"/a\"\nrights = []\nmethods = [\"krb5\"]", "is no method"),
            ("[[binding]]\nmethods = []", "binding.host"),
            ("[[binding]]\nhost = \"*\"", "binding.methods"),
            ("[[binding]]\nhost = \"*.site.org\"\nmethods = []", "is no address"),
            ("[[binding]]\nhost = \"::1\"\nmethods = [\"gsi\"]", "is not one of"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
        }
    }
}
