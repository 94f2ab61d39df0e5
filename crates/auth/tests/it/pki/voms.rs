//! Attribute certificates for tests.

use super::der::{element, elements, generalized_time, integer, oid, sequence, signed};
use super::{DAY, Holder, INHERIT_ALL, NOW};
use forebay_auth::UnixTime;
use openssl::asn1::{Asn1Object, Asn1OctetString};
use openssl::pkey::{PKey, Private};
use openssl::x509::{X509, X509Extension};

/// What an attribute certificate says; tests change what they are about.
pub(crate) struct AttributeDraft {
    pub(crate) organization: &'static str,
    pub(crate) names: Vec<&'static str>,
    pub(crate) holder: X509,
    pub(crate) names_subject: bool,
    pub(crate) from: UnixTime,
    pub(crate) until: UnixTime,
    pub(crate) targets: Option<Vec<&'static str>>,
    pub(crate) certificates: Vec<X509>,
    pub(crate) issuer: X509,
    pub(crate) key: PKey<Private>,
    pub(crate) extra: Vec<Vec<u8>>,
}

impl AttributeDraft {
    /// Attributes of `holder`, by `server`, valid for a day around [`NOW`].
    pub(crate) fn of(holder: &Holder, server: &Holder, names: &[&'static str]) -> Self {
        Self {
            organization: "atlas",
            names: names.to_vec(),
            holder: holder.certificates.last().unwrap().clone(),
            names_subject: false,
            from: NOW.plus(-DAY),
            until: NOW.plus(DAY),
            targets: None,
            certificates: server.certificates.clone(),
            issuer: server.certificates[0].clone(),
            key: server.key.clone(),
            extra: Vec::new(),
        }
    }

    pub(crate) fn sign(self) -> Vec<u8> {
        let holder = if self.names_subject { self.holder.subject_name() } else { self.holder.issuer_name() };
        let serial = self.holder.serial_number().to_bn().unwrap().to_vec();
        let holder = elements(0xa0, &[general_name(&holder.to_der().unwrap()), integer(&serial)]);
        let issuer = general_name(&self.issuer.subject_name().to_der().unwrap());
        let authority = format!("{}://voms.site.org:15000", self.organization);
        let names: Vec<_> = self.names.iter().map(|name| element(4, name.as_bytes())).collect();
        let values = sequence(&[element(0xa0, &element(0x86, authority.as_bytes())), sequence(&names)]);
        let attribute = sequence(&[oid("1.3.6.1.4.1.8005.100.100.4"), element(0x31, &values)]);
        let mut extensions = self.extra;
        if !self.certificates.is_empty() {
            let all: Vec<_> = self.certificates.iter().map(|certificate| certificate.to_der().unwrap()).collect();
            extensions.push(extension("1.3.6.1.4.1.8005.100.100.10", false, &sequence(&[sequence(&all)])));
        }
        if let Some(targets) = self.targets {
            let targets = targets.iter().map(|host| sequence(&[element(0xa0, &element(0x86, host.as_bytes()))]));
            extensions.push(extension("2.5.29.55", true, &sequence(&targets.collect::<Vec<_>>())));
        }
        let info = sequence(&[
            integer(&[1]),
            sequence(&[holder]),
            element(0xa0, &issuer),
            super::der::algorithm(),
            integer(&[42]),
            sequence(&[generalized_time(self.from), generalized_time(self.until)]),
            sequence(&[attribute]),
            sequence(&extensions),
        ]);
        signed(&info, &self.key)
    }
}

/// An extension of an attribute certificate.
pub(crate) fn extension(id: &str, is_critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if is_critical { element(1, &[0xff]) } else { Vec::new() };
    sequence(&[oid(id), critical, element(4, value)])
}

/// A proxy of the holder that carries attribute certificates.
pub(crate) fn proxy_with(holder: &Holder, attribute_certificates: &[Vec<u8>]) -> Holder {
    proxy_with_raw(holder, &sequence(&[sequence(attribute_certificates)]))
}

/// See [`proxy_with`]; with any bytes in their place.
pub(crate) fn proxy_with_raw(holder: &Holder, value: &[u8]) -> Holder {
    let oid = Asn1Object::from_str("1.3.6.1.4.1.8005.100.100.5").unwrap();
    let value = Asn1OctetString::new_from_bytes(value).unwrap();
    let extension = X509Extension::new_from_der(&oid, false, &value).unwrap();
    holder.sign(holder.proxy_draft(INHERIT_ALL, None).with(extension))
}

fn general_name(name: &[u8]) -> Vec<u8> {
    sequence(&[element(0xa4, name)])
}
