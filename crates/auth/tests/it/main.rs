//! The public interface: certificates, GSI and VOMS attributes, by the public interface.

mod gsi_handshake;
mod pki;
mod voms_attributes;
mod x509_proxy;
mod x509_trust;
