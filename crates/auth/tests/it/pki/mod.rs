//! Certificates for tests: authorities, end entities, proxies, revocation lists, each as right or wrong as a test wants it.

pub(crate) mod der;
pub(crate) mod voms;

use forebay_auth::UnixTime;
use forebay_auth::x509::{Certificate, Chain, Credential, TrustAnchors};
use openssl::asn1::{Asn1Object, Asn1OctetString, Asn1Time};
use openssl::bn::BigNum;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::x509::extension::{BasicConstraints, KeyUsage, SubjectAlternativeName};
use openssl::x509::{X509, X509Builder, X509Extension, X509Name, X509Req};
use std::sync::atomic::{AtomicU32, Ordering};

/// The time at which tests play: 2026-01-01.
pub(crate) const NOW: UnixTime = UnixTime(1_767_225_600);
pub(crate) const HOUR: i64 = 3600;
pub(crate) const DAY: i64 = 24 * HOUR;

pub(crate) const INHERIT_ALL: &str = "1.3.6.1.5.5.7.21.1";
pub(crate) const INDEPENDENT: &str = "1.3.6.1.5.5.7.21.2";
pub(crate) const LIMITED: &str = "1.3.6.1.4.1.3536.1.1.1.9";

/// What a certificate says; tests change what they are about.
pub(crate) struct Draft {
    pub(crate) subject: Vec<(&'static str, String)>,
    pub(crate) from: UnixTime,
    pub(crate) until: UnixTime,
    pub(crate) extensions: Vec<X509Extension>,
    pub(crate) digest: MessageDigest,
    pub(crate) serial: u32,
}

impl Draft {
    /// Valid for a day around [`NOW`], without extensions.
    pub(crate) fn of(subject: &[(&'static str, &str)]) -> Self {
        static SERIAL: AtomicU32 = AtomicU32::new(1000);
        Self {
            subject: subject.iter().map(|(field, value)| (*field, (*value).to_owned())).collect(),
            from: NOW.plus(-DAY),
            until: NOW.plus(DAY),
            extensions: Vec::new(),
            digest: MessageDigest::sha256(),
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// With an extension.
    pub(crate) fn with(mut self, extension: X509Extension) -> Self {
        self.extensions.push(extension);
        self
    }

    fn sign(self, key: &PKey<Private>, issuer: Option<&X509>, issuer_key: &PKey<Private>) -> X509 {
        let subject = name(&self.subject);
        let mut builder = X509Builder::new().unwrap();
        builder.set_version(2).unwrap();
        builder.set_serial_number(&BigNum::from_u32(self.serial).unwrap().to_asn1_integer().unwrap()).unwrap();
        builder.set_subject_name(&subject).unwrap();
        builder.set_issuer_name(issuer.map_or(&*subject, |issuer| issuer.subject_name())).unwrap();
        builder.set_not_before(&Asn1Time::from_unix(self.from.0).unwrap()).unwrap();
        builder.set_not_after(&Asn1Time::from_unix(self.until.0).unwrap()).unwrap();
        builder.set_pubkey(key).unwrap();
        for extension in self.extensions {
            builder.append_extension(extension).unwrap();
        }
        builder.sign(issuer_key, self.digest).unwrap();
        builder.build()
    }
}

/// A certification authority.
pub(crate) struct Authority {
    pub(crate) certificate: X509,
    pub(crate) key: PKey<Private>,
}

impl Authority {
    /// One that signs itself.
    pub(crate) fn new(common_name: &str) -> Self {
        let key = key(0);
        Self { certificate: ca_draft(common_name).sign(&key, None, &key), key }
    }

    /// One that this one has signed.
    pub(crate) fn below(&self, common_name: &str) -> Self {
        let key = key(1);
        Self { certificate: ca_draft(common_name).sign(&key, Some(&self.certificate), &self.key), key }
    }

    /// Certificate and key for what the draft says.
    pub(crate) fn issue(&self, draft: Draft) -> Holder {
        let key = key(2);
        Holder { certificates: vec![draft.sign(&key, Some(&self.certificate), &self.key)], key }
    }

    /// A person.
    pub(crate) fn person(&self, common_name: &str) -> Holder {
        self.issue(Draft::of(&[("DC", "org"), ("DC", "grid"), ("CN", common_name)]).with(signing_usage()))
    }

    /// A host with one DNS name.
    pub(crate) fn host(&self, dns: &str) -> Holder {
        let mut alternative = SubjectAlternativeName::new();
        alternative.dns(dns);
        let draft = Draft::of(&[("DC", "org"), ("DC", "grid"), ("CN", dns)]).with(signing_usage());
        let context_of = X509Builder::new().unwrap();
        let extension = alternative.build(&context_of.x509v3_context(None, None)).unwrap();
        self.issue(draft.with(extension))
    }

    /// A revocation list.
    pub(crate) fn crl(&self, revoked: &[&X509], made_at: UnixTime, next_at: UnixTime) -> Vec<u8> {
        let entries: Vec<_> = revoked
            .iter()
            .map(|certificate| {
                let serial = certificate.serial_number().to_bn().unwrap().to_vec();
                der::sequence(&[der::integer(&serial), der::generalized_time(made_at)])
            })
            .collect();
        let mut fields = vec![
            der::integer(&[1]),
            der::algorithm(),
            self.certificate.subject_name().to_der().unwrap(),
            der::generalized_time(made_at),
            der::generalized_time(next_at),
        ];
        if !entries.is_empty() {
            fields.push(der::sequence(&entries));
        }
        der::signed(&der::sequence(&fields), &self.key)
    }

    /// Anchors that trust this authority only.
    pub(crate) fn anchors(&self) -> TrustAnchors {
        let mut anchors = TrustAnchors::default();
        anchors.add_authorities(&self.certificate.to_pem().unwrap()).unwrap();
        anchors
    }
}

/// A holder of a certificate or of a proxy.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) certificates: Vec<X509>,
    pub(crate) key: PKey<Private>,
}

impl Holder {
    /// The draft of a proxy below this one: a full one after RFC 3820 that may sign further ones.
    pub(crate) fn proxy_draft(&self, policy: &str, depth: Option<u8>) -> Draft {
        self.draft_below("1234567").with(proxy_info(policy, depth))
    }

    /// A draft with one more common name, and no extension that makes it a proxy.
    pub(crate) fn draft_below(&self, common_name: &str) -> Draft {
        let mut draft = Draft::of(&[]);
        let entries = self.certificates[0].subject_name();
        draft.subject = entries
            .entries()
            .map(|entry| (entry.object().nid().short_name().unwrap(), entry.data().to_string().unwrap()))
            .collect();
        draft.subject.push(("CN", common_name.to_owned()));
        draft
    }

    /// Signs a draft as the next below this one.
    pub(crate) fn sign(&self, draft: Draft) -> Self {
        let key = key(2 + self.certificates.len());
        let mut certificates = vec![draft.sign(&key, Some(&self.certificates[0]), &self.key)];
        certificates.extend(self.certificates.iter().cloned());
        Self { certificates, key }
    }

    /// A full proxy.
    pub(crate) fn proxy(&self) -> Self {
        self.sign(self.proxy_draft(INHERIT_ALL, None))
    }

    /// All certificates in PEM, the leaf first.
    pub(crate) fn pem(&self) -> Vec<u8> {
        self.certificates.iter().flat_map(|certificate| certificate.to_pem().unwrap()).collect()
    }

    pub(crate) fn key_pem(&self) -> Vec<u8> {
        self.key.private_key_to_pem_pkcs8().unwrap()
    }

    pub(crate) fn chain(&self) -> Chain {
        Chain::from_pem(&self.pem()).unwrap()
    }

    pub(crate) fn credential(&self) -> Credential {
        Credential::from_pem(&self.pem(), &self.key_pem()).unwrap()
    }

    pub(crate) fn leaf(&self) -> Certificate {
        Certificate::from_x509(self.certificates[0].clone()).unwrap()
    }
}

/// The `at`th of the keys that tests share: making one takes a while. They protect nothing.
pub(crate) fn key(at: usize) -> PKey<Private> {
    const KEYS: [&[u8]; 8] = [
        include_bytes!("keys/0.pem"),
        include_bytes!("keys/1.pem"),
        include_bytes!("keys/2.pem"),
        include_bytes!("keys/3.pem"),
        include_bytes!("keys/4.pem"),
        include_bytes!("keys/5.pem"),
        include_bytes!("keys/6.pem"),
        include_bytes!("keys/7.pem"),
    ];
    PKey::private_key_from_pem(KEYS[at % KEYS.len()]).unwrap()
}

/// A proxyCertInfo extension.
pub(crate) fn proxy_info(policy: &str, depth: Option<u8>) -> X509Extension {
    let language = Asn1Object::from_str(policy).unwrap();
    let language = [&[6, u8::try_from(language.as_slice().len()).unwrap()], language.as_slice()].concat();
    let policy = [&[0x30, u8::try_from(language.len()).unwrap()], language.as_slice()].concat();
    let depth = depth.map(|depth| vec![2, 1, depth]).unwrap_or_default();
    let info = [&[0x30, u8::try_from(depth.len() + policy.len()).unwrap()], depth.as_slice(), &policy].concat();
    raw_extension("1.3.6.1.5.5.7.1.14", true, &info)
}

/// An extension of any kind.
pub(crate) fn raw_extension(oid: &str, is_critical: bool, value: &[u8]) -> X509Extension {
    let oid = Asn1Object::from_str(oid).unwrap();
    X509Extension::new_from_der(&oid, is_critical, &Asn1OctetString::new_from_bytes(value).unwrap()).unwrap()
}

pub(crate) fn signing_usage() -> X509Extension {
    KeyUsage::new().critical().digital_signature().key_encipherment().build().unwrap()
}

pub(crate) fn name(parts: &[(&'static str, String)]) -> X509Name {
    let mut builder = X509Name::builder().unwrap();
    for (field, value) in parts {
        builder.append_entry_by_text(field, value).unwrap();
    }
    builder.build()
}

/// A PKCS#10 request for the key, as some other program would make it.
pub(crate) fn request(key: &PKey<Private>) -> Vec<u8> {
    let mut request = X509Req::builder().unwrap();
    request.set_pubkey(key).unwrap();
    request.sign(key, MessageDigest::sha256()).unwrap();
    request.build().to_pem().unwrap()
}

fn ca_draft(common_name: &str) -> Draft {
    Draft::of(&[("DC", "org"), ("DC", "grid"), ("CN", common_name)])
        .with(BasicConstraints::new().critical().ca().build().unwrap())
        .with(KeyUsage::new().critical().key_cert_sign().crl_sign().build().unwrap())
}
