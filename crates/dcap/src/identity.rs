//! The identity of a client. The protocol has no proof of it but the address.

use crate::{control_line::Login, state::State};
use forebay_auth::{SecurityProtocol, UnixTime};
use forebay_dcap_proto::Hello;
use forebay_engine::{Client, ClientProtocol};
use forebay_front::Place;
use forebay_telemetry::ConnectionLimit;
use forebay_trust::{ClientFacts, Demand, Gate, Proof, Step};
use std::net::SocketAddr;

/// The identity already has as many sessions as it may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the client has {limit} sessions, and may have no more")]
pub(crate) struct TooManySessions {
    limit: usize,
}

/// The user name of clients without one.
const USER: &str = "dcap";

/// The identity of a client after its hello, with the place of its session.
pub(crate) fn log_in(
    state: &State,
    peer: SocketAddr,
    hello: &Hello,
) -> Result<(Login, Option<Place<String>>), TooManySessions> {
    let front = &state.front;
    let facts = ClientFacts { address: peer, login: String::new(), is_tls: false };
    let (proof, is_proven) = match front.gate.demand(&facts) {
        Ok(Demand::Nothing) => (Gate::anonymous_identity(&facts), true),
        // The address is all that such a client has to prove.
        _ => match front
            .gate
            .begin(SecurityProtocol::Host, &facts)
            .map(|attempt| Box::new(attempt).handle(&[], UnixTime(0)))
        {
            Ok(Step::Done(proof)) => (*proof, true),
            Ok(Step::Continue(..) | Step::Refused(_)) | Err(_) => (Gate::anonymous_identity(&facts), false),
        },
    };
    let Proof { identity, credentials, .. } = proof;
    let place = front.limits.admit_session(&identity).map_err(|limit| {
        front.backend.metrics().add_refused_connection(ConnectionLimit::Identity);
        TooManySessions { limit }
    })?;
    let client = Client {
        user: identity.user.clone().unwrap_or_else(|| USER.to_owned()),
        host: peer.ip().to_string(),
        organization: identity.organization().map(str::to_owned),
        peer: Some(peer),
        pid: hello.pid,
        program: format!("dcap {}.{}", hello.version.0, hello.version.1),
        protocol: ClientProtocol::Dcap,
        session: 0,
    };
    // The user number is a claim: it appears here only.
    tracing::debug!(%peer, %identity, uid = hello.uid, "logged in");
    Ok((Login { caller: front.logged_in(client, identity, credentials), is_proven }, place))
}
