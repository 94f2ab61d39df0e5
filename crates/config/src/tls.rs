//! The settings of encryption.

use crate::{
    checker::Checker,
    config::{ClientsTls, TlsConfig},
    convert::parse_path,
    raw::{RawOrigin, RawTls},
};
use forebay_net::{Credential, CrlPolicy, ServerTlsFiles, TrustAnchors};
use forebay_proto::TlsPolicy;
use std::{convert::Infallible, path::PathBuf, time::Duration};
use toml::Spanned;

/// Longest list of cipher suites in bytes.
const CIPHERS_LEN_MAX: usize = 4096;

/// Encryption as it is written, towards clients and towards origins.
pub(crate) fn read_tls(raw: &RawTls, origin: &RawOrigin, checker: &mut Checker<'_>) -> TlsConfig {
    let mut trust = TrustAnchors::default();
    checker.set(&mut trust.ca_dir, "tls.ca_dir", raw.ca_dir.as_ref(), |text| parse_path(text));
    checker.set(&mut trust.crl, "tls.crl", raw.crl.as_ref(), |text| {
        let policies = CrlPolicy::ALL.into_iter();
        choose(text, policies.map(|policy| (policy.as_str(), policy)), "is no use of revocation lists")
    });
    let clients = read_clients(raw, &trust, checker);
    let own = read_credential(
        ("origin.certificate", origin.certificate.as_ref()),
        ("origin.key", origin.key.as_ref()),
        checker,
    );
    TlsConfig { clients, trust, own }
}

fn read_clients(raw: &RawTls, trust: &TrustAnchors, checker: &mut Checker<'_>) -> Option<ClientsTls> {
    let mut policy = TlsPolicy::Capable;
    checker.set(&mut policy, "tls.policy", raw.policy.as_ref(), |text| {
        let policies = TlsPolicy::ALL.into_iter().filter(|&policy| policy != TlsPolicy::None);
        choose(text, policies.map(|policy| (policy.as_str(), policy)), "is no policy")
    });
    let mut handshake_time_max = Duration::from_secs(10);
    checker.set_duration(&mut handshake_time_max, "tls.handshake_time_max", raw.handshake_time_max.as_ref());
    let ciphers = checker.read("tls.ciphers", raw.ciphers.as_ref(), |text| parse_ciphers(text));
    let mut asks_clients = true;
    checker.set(&mut asks_clients, "tls.client_certificates", raw.client_certificates.as_ref(), |&on| {
        Ok::<_, Infallible>(on)
    });
    if let (Some(written), None) = (&raw.policy, &raw.certificate)
        && policy != TlsPolicy::Capable
    {
        let text = "a demand without a certificate: write tls.certificate too";
        checker.refuse("tls.policy", Some(&written.span()), text);
    }
    let (certificate, key) = (raw.certificate.as_ref(), raw.key.as_ref());
    let credential = read_credential(("tls.certificate", certificate), ("tls.key", key), checker)?;
    // Where the grid's usual directory is missing, nobody can have a certificate that means something.
    let has_trust = raw.ca_dir.is_some() || trust.ca_dir.is_dir();
    let trust = (asks_clients && has_trust).then(|| trust.clone());
    Some(ClientsTls { files: ServerTlsFiles { credential, trust, ciphers, resumes: true }, policy, handshake_time_max })
}

/// A certificate with its key, which is in the same file unless written.
fn read_credential(
    (certificate_name, certificate): (&str, Option<&Spanned<String>>),
    (key_name, key): (&str, Option<&Spanned<String>>),
    checker: &mut Checker<'_>,
) -> Option<Credential> {
    let path: Option<PathBuf> = checker.read(certificate_name, certificate, |text| parse_path(text));
    let key_path = checker.read(key_name, key, |text| parse_path(text));
    if let (Some(key), None) = (key, certificate) {
        let text = format_args!("a key without its certificate: write {certificate_name} too");
        checker.refuse(key_name, Some(&key.span()), text);
    }
    path.map(|certificate| Credential { key: key_path.unwrap_or_else(|| certificate.clone()), certificate })
}

fn choose<T>(
    text: &str,
    mut choices: impl Iterator<Item = (&'static str, T)> + Clone,
    what: &str,
) -> Result<T, String> {
    let names: Vec<&str> = choices.clone().map(|(name, _)| name).collect();
    let chosen = choices.find(|(name, _)| *name == text).map(|(_, choice)| choice);
    chosen.ok_or_else(|| format!("`{}` {what}: write one of {}", text.escape_default(), names.join(", ")))
}

fn parse_ciphers(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > CIPHERS_LEN_MAX || text.contains(|c: char| !c.is_ascii_graphic()) {
        return Err("no list of cipher suites: write it as for `openssl ciphers`".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::Settings;
    use forebay_net::CrlPolicy;
    use forebay_proto::TlsPolicy;
    use std::path::Path;

    fn settings(text: &str) -> Result<Settings, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\n[[export]]\norigins = [\"root://o\"]\n{text}");
        Settings::parse(Path::new("forebay.toml"), whole)
    }

    #[test]
    fn clients_get_tls_with_a_certificate_only() {
        assert_eq!(settings("").unwrap().config.tls.clients, None);
        let config = settings("[tls]\ncertificate = \"/c.pem\"\n").unwrap().config;
        let clients = config.tls.clients.unwrap();
        assert_eq!(clients.policy, TlsPolicy::Capable);
        assert_eq!(clients.files.credential.key, Path::new("/c.pem"));
        assert_eq!(config.tls.trust.crl, CrlPolicy::Try);
    }

    #[test]
    fn what_is_written_counts() {
        let text = "[tls]\ncertificate = \"/c\"\nkey = \"/k\"\npolicy = \"data\"\nca_dir = \"/ca\"\ncrl = \"require\"\n\
                    handshake_time_max = \"3s\"\n[origin]\ncertificate = \"/robot\"\n";
        let tls = settings(text).unwrap().config.tls;
        let clients = tls.clients.unwrap();
        assert_eq!((clients.policy, clients.handshake_time_max.as_secs()), (TlsPolicy::Data, 3));
        assert_eq!(clients.files.credential.key, Path::new("/k"));
        let trust = clients.files.trust.unwrap();
        assert_eq!((trust.ca_dir.as_path(), trust.crl), (Path::new("/ca"), CrlPolicy::Require));
        assert_eq!(tls.own.unwrap().key, Path::new("/robot"));
    }

    #[test]
    fn clients_need_not_be_asked_for_certificates() {
        let text = "[tls]\ncertificate = \"/c\"\nca_dir = \"/ca\"\nclient_certificates = false\n";
        let tls = settings(text).unwrap().config.tls;
        assert_eq!(tls.clients.unwrap().files.trust, None);
        assert_eq!(tls.trust.ca_dir, Path::new("/ca"));
    }

    #[test]
    fn mistakes_are_explained() {
        for (text, expected) in [
            ("[tls]\npolicy = \"all\"", "write tls.certificate too"),
            ("[tls]\nkey = \"/k\"", "write tls.certificate too"),
            ("[origin]\nkey = \"/k\"", "write origin.certificate too"),
            ("[tls]\ncertificate = \"/c\"\npolicy = \"none\"", "write one of capable, login, session, data, all"),
            ("[tls]\ncertificate = \"/c\"\ncrl = \"x\"", "write one of ignore, try, require"),
            ("[tls]\ncertificate = \"/c\"\nciphers = \"\"", "openssl ciphers"),
        ] {
            let error = settings(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
