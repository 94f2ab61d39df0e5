//! Addresses of clients and administrators, each of which serves one purpose.

use super::checker::Checker;
use crate::{config::Config, file::Raw};
use std::{collections::BTreeMap, net::SocketAddr};

/// Refuses an address that is written twice: the second one could not be bound.
pub(crate) fn check_listeners(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let admin: Vec<SocketAddr> = config.admin.listen.into_iter().collect();
    let mut taken: BTreeMap<SocketAddr, &str> = BTreeMap::new();
    for (setting, span, addresses) in [
        ("server.listen", raw.server.listen.span(), &config.server.listen),
        ("http.listen", raw.http.listen.span(), &config.http.listen),
        ("s3.listen", raw.s3.listen.span(), &config.s3.listen),
        ("dcap.listen", raw.dcap.listen.span(), &config.dcap.listen),
        ("admin.listen", raw.admin.listen.span(), &admin),
    ] {
        // Port 0 stands for any free one.
        for address in addresses.iter().filter(|address| address.port() != 0) {
            if let Some(other) = taken.insert(*address, setting) {
                let other = checker.name(other);
                checker.refuse(setting, span, format_args!("{address} is taken by {other}: write another port"));
            }
        }
    }
}
