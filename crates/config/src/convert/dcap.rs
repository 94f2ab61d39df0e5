//! The dCap front.

use super::checker::Checker;
use crate::{config::Config, file::Raw};

/// Highest port of clients: libdcap 2.47 takes a port for a signed number of 16 bits.
const PORT_MAX: u16 = 32_767;

pub(crate) fn check_dcap(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    if let Some(address) = config.dcap.listen.iter().find(|address| !(1..=PORT_MAX).contains(&address.port())) {
        let text =
            format_args!("clients of dCap cannot connect to port {}: write one from 1 to {PORT_MAX}", address.port());
        checker.refuse("dcap.listen", raw.dcap.listen.span(), text);
    }
}
