//! Connections to servers of origins, which must not lead back to this cache.

use crate::OriginError;
use forebay_net::{ConnectError, connect_where, is_of_this_machine, listens_at};
use forebay_types::Endpoint;
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpStream;

/// The addresses at which this process listens: no connection is made to there.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OwnAddresses {
    pub addresses: Vec<SocketAddr>,
    /// The same by canonical name.
    pub names: Vec<Endpoint>,
}

/// The server that redirected, and the setting that excludes this machine as its target.
#[derive(Clone, Debug)]
pub struct Redirected {
    pub by: Endpoint,
    pub setting: &'static str,
}

/// Connects to `endpoint` within `limit`. With `redirect`, not to an address of this machine.
///
/// # Errors
/// `Unreachable`; `Itself` or `RedirectRefused` if it is at an address that must not be connected to.
pub async fn reach(
    endpoint: &Endpoint,
    limit: Duration,
    own: &OwnAddresses,
    redirect: Option<&Redirected>,
) -> Result<TcpStream, OriginError> {
    if let Some(name) = own.names.iter().find(|&name| Some(name) == endpoint.canonical().as_ref()) {
        return Err(OriginError::Itself { endpoint: endpoint.clone(), address: name.to_string() });
    }
    // The name of a server says nothing about its address.
    let permits = |address: SocketAddr| {
        !listens_at(&own.addresses, address) && (redirect.is_none() || !is_of_this_machine(address.ip()))
    };
    connect_where(endpoint, limit, permits).await.map_err(|error| {
        let reason = match error {
            ConnectError::Forbidden { address, .. } => return forbidden(endpoint, redirect, address),
            ConnectError::Resolve { source, .. } => format!("its name cannot be resolved: {source}"),
            ConnectError::Refused { address, source, .. } if endpoint.to_string() == address.to_string() => {
                source.to_string()
            }
            ConnectError::Refused { address, source, .. } => format!("{address}: {source}"),
            ConnectError::TimedOut { limit, .. } => format!("no answer within {limit:?}"),
        };
        OriginError::Unreachable { endpoint: endpoint.clone(), reason }
    })
}

/// All addresses of a server are such that it must not be connected to; `address` is one of them.
fn forbidden(endpoint: &Endpoint, redirect: Option<&Redirected>, address: SocketAddr) -> OriginError {
    let target = endpoint.clone();
    match redirect {
        Some(Redirected { by, setting }) => OriginError::RedirectRefused {
            endpoint: by.clone(),
            target,
            reason: format!("{} is an address of this machine or of its link; {setting} must name it", address.ip()),
        },
        None => OriginError::Itself { endpoint: target, address: address.to_string() },
    }
}
