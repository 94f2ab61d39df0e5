//! What this cache shows origins as proof of who it is.

use crate::{
    checker::Checker,
    config::TlsConfig,
    convert::parse_path,
    raw::{Raw, RawCredential},
    security::{named, needed, parse_text},
};
use forebay_auth::x509::TrustRules;
use forebay_trust::{CredentialOptions, CredentialRule, OriginProof};
use std::convert::Infallible;
use toml::Spanned;

/// Most tables: each request to an origin looks through them.
const RULES_MAX: usize = 256;

/// Most patterns of one table.
const HOSTS_MAX: usize = 256;

/// What `method` may be.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Method {
    Nothing,
    Proxy,
    Certificate,
    Token,
    Secret,
    Client,
}

const METHODS: [(&str, Method); 6] = [
    ("none", Method::Nothing),
    ("proxy", Method::Proxy),
    ("certificate", Method::Certificate),
    ("token", Method::Token),
    ("secret", Method::Secret),
    ("client", Method::Client),
];

pub(crate) fn read_credentials(
    raw: &Raw,
    user: &str,
    tls: &TlsConfig,
    trust: TrustRules,
    checker: &mut Checker<'_>,
) -> CredentialOptions {
    if let Some(too_many) = raw.credential.get(RULES_MAX) {
        checker.refuse("credential", Some(&too_many.span()), format_args!("more than {RULES_MAX} tables"));
    }
    let rules: Vec<_> = raw.credential.iter().filter_map(|table| read_rule(table, user, checker)).collect();
    check_clients(raw, &rules, checker);
    let is_on = |setting: Option<&Spanned<bool>>| setting.is_some_and(|on| *on.get_ref());
    let asks_leave = is_on(raw.forwarding.origin_check.as_ref())
        || raw.export.iter().any(|export| is_on(export.get_ref().origin_check.as_ref()));
    let ca_dir = tls.trust.ca_dir.clone();
    CredentialOptions { rules, user: user.to_owned(), ca_dir, trust, keeps_those_of_clients: asks_leave }
}

/// What a client hands over is made ready once, for all servers that are shown it.
fn check_clients(raw: &Raw, rules: &[CredentialRule], checker: &mut Checker<'_>) {
    let mut clients = rules.iter().filter(|rule| rule.proof == OriginProof::OfClient);
    let switches = |rule: &CredentialRule| (rule.allows_weak_groups, rule.allows_unsigned, rule.allows_plain_tokens);
    let Some(first) = clients.next().map(switches) else { return };
    if clients.any(|rule| switches(rule) != first) {
        let place = raw.credential.first().map(Spanned::span);
        let text = "tables with method = \"client\" must agree on weak_groups, unsigned_gsi and plain_tokens";
        checker.refuse("credential", place.as_ref(), text);
    }
}

fn read_rule(table: &Spanned<RawCredential>, user: &str, checker: &mut Checker<'_>) -> Option<CredentialRule> {
    let raw = table.get_ref();
    let hosts = needed("credential.hosts", raw.hosts.as_ref(), table, checker);
    let hosts = checker.read_list("credential.hosts", hosts, parse_text);
    if let (Some(hosts), Some(written)) = (&hosts, &raw.hosts)
        && !(1..=HOSTS_MAX).contains(&hosts.len())
    {
        let text = format_args!("write 1 to {HOSTS_MAX} patterns");
        checker.refuse("credential.hosts", Some(&written.span()), text);
    }
    let method = needed("credential.method", raw.method.as_ref(), table, checker);
    let method = checker.read("credential.method", method, |text| named(text, METHODS));
    let proof = read_proof(table, method?, checker);
    let mut rule = CredentialRule {
        hosts: hosts?,
        proof: proof?,
        user: user.to_owned(),
        allows_weak_groups: false,
        allows_unsigned: false,
        allows_plain_tokens: false,
    };
    checker.set(&mut rule.user, "credential.user", raw.user.as_ref(), |text| parse_text(text));
    let weak = raw.weak_groups.as_ref();
    checker.set(&mut rule.allows_weak_groups, "credential.weak_groups", weak, |&on| Ok::<_, Infallible>(on));
    let unsigned = raw.unsigned_gsi.as_ref();
    checker.set(&mut rule.allows_unsigned, "credential.unsigned_gsi", unsigned, |&on| Ok::<_, Infallible>(on));
    checker.set(&mut rule.allows_plain_tokens, "credential.plain_tokens", raw.plain_tokens.as_ref(), |text| {
        named(text, [("never", false), ("loopback", true)])
    });
    Some(rule)
}

fn read_proof(table: &Spanned<RawCredential>, method: Method, checker: &mut Checker<'_>) -> Option<OriginProof> {
    let raw = table.get_ref();
    // A file that the method does not use is most likely a mistake in the method.
    for (setting, written, user) in [
        ("credential.proxy", &raw.proxy, Method::Proxy),
        ("credential.certificate", &raw.certificate, Method::Certificate),
        ("credential.key", &raw.key, Method::Certificate),
        ("credential.token", &raw.token, Method::Token),
        ("credential.keytab", &raw.keytab, Method::Secret),
        ("credential.key_name", &raw.key_name, Method::Secret),
    ] {
        if let Some(written) = written.as_ref().filter(|_| user != method) {
            let name = METHODS.iter().find(|(_, method)| *method == user).map_or("", |(name, _)| name);
            checker.refuse(setting, Some(&written.span()), format_args!("it is of use with method = \"{name}\" only"));
        }
    }
    Some(match method {
        Method::Nothing => OriginProof::Nothing,
        Method::Client => OriginProof::OfClient,
        Method::Proxy => {
            OriginProof::Proxy(checker.read("credential.proxy", raw.proxy.as_ref(), |text| parse_path(text)))
        }
        Method::Token => {
            OriginProof::Token(checker.read("credential.token", raw.token.as_ref(), |text| parse_path(text)))
        }
        Method::Certificate => {
            let certificate = needed("credential.certificate", raw.certificate.as_ref(), table, checker);
            let certificate = checker.read("credential.certificate", certificate, |text| parse_path(text));
            let key = needed("credential.key", raw.key.as_ref(), table, checker);
            let key = checker.read("credential.key", key, |text| parse_path(text));
            OriginProof::Certificate { certificate: certificate?, key: key? }
        }
        Method::Secret => {
            let keytab = needed("credential.keytab", raw.keytab.as_ref(), table, checker);
            let keytab = checker.read("credential.keytab", keytab, |text| parse_path(text));
            let key = checker.read("credential.key_name", raw.key_name.as_ref(), |text| parse_text(text));
            OriginProof::Secret { keytab: keytab?, key }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use std::path::{Path, PathBuf};

    fn parse(text: &str) -> Result<CredentialOptions, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n{text}");
        Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config.credentials)
    }

    #[test]
    fn each_method_has_its_files() {
        let options = parse(
            "[[credential]]\nhosts = [\"a.org\"]\nmethod = \"proxy\"\nweak_groups = true\n\
             [[credential]]\nhosts = [\"b.org\"]\nmethod = \"certificate\"\ncertificate = \"/c\"\nkey = \"/k\"\n\
             [[credential]]\nhosts = [\"c.org\"]\nmethod = \"token\"\ntoken = \"/t\"\nplain_tokens = \"loopback\"\n\
             [[credential]]\nhosts = [\"d.org\"]\nmethod = \"secret\"\nkeytab = \"/s\"\nuser = \"xrd\"\n\
             [[credential]]\nhosts = [\"*\"]\nmethod = \"client\"\n",
        )
        .unwrap();
        let proofs: Vec<_> = options.rules.iter().map(|rule| rule.proof.clone()).collect();
        let path = |text: &str| PathBuf::from(text);
        let expected = [
            OriginProof::Proxy(None),
            OriginProof::Certificate { certificate: path("/c"), key: path("/k") },
            OriginProof::Token(Some(path("/t"))),
            OriginProof::Secret { keytab: path("/s"), key: None },
            OriginProof::OfClient,
        ];
        assert_eq!(proofs, expected);
        let [first, _, third, fourth, last] = &options.rules[..] else { panic!() };
        assert!(first.allows_weak_groups && !last.allows_weak_groups && third.allows_plain_tokens);
        assert_eq!((fourth.user.as_str(), last.user.as_str()), ("xrd", "forebay"));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_where_it_stands() {
        for (text, problem) in [
            ("[[credential]]\nmethod = \"none\"", "credential.hosts"),
            ("[[credential]]\nhosts = []\nmethod = \"none\"", "write 1 to"),
            ("[[credential]]\nhosts = [\"*\"]", "credential.method"),
            ("[[credential]]\nhosts = [\"*\"]\nmethod = \"krb5\"", "write one of"),
            ("[[credential]]\nhosts = [\"*\"]\nmethod = \"certificate\"\nkey = \"/k\"", "credential.certificate"),
            ("[[credential]]\nhosts = [\"*\"]\nmethod = \"secret\"", "credential.keytab"),
            (
                "[[credential]]\nhosts = [\"a\"]\nmethod = \"client\"\nweak_groups = true\n\
                 [[credential]]\nhosts = [\"*\"]\nmethod = \"client\"",
                "must agree on weak_groups",
            ),
            ("[[credential]]\nhosts = [\"*\"]\nmethod = \"proxy\"\ntoken = \"/t\"", "method = \"token\" only"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
        }
    }
}
