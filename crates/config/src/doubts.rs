//! Settings that are valid, and are probably not what the administrator wants: about access to the server.

use crate::{base::Problem, config::Config, settings::Settings};
use forebay_auth::{Conditions, Grant, Issuer, Method, ScopeUse, SecurityProtocol};
use forebay_cache::AllowList;
use forebay_trust::SecurityOptions;
use forebay_types::{Lfn, glob_matches};
use std::net::{IpAddr, Ipv6Addr};

impl Settings {
    /// Doubtful settings on access, each with its place and a remedy. `own_addresses` are those of this machine, which count
    /// if the server listens on all of them.
    #[must_use]
    pub fn doubts(&self, own_addresses: &[IpAddr]) -> Vec<Problem> {
        let config = &self.config;
        let access = Access::of(config);
        let mut doubts = Vec::new();
        let mut add =
            |setting: &str, text: Option<String>| doubts.extend(text.map(|text| self.problem_at(setting, text)));
        add("server.listen", open_to_all(config, own_addresses));
        add("authentication.methods", without_tls(config));
        for (index, (issuer, _)) in config.security.issuers.iter().enumerate() {
            add(&format!("issuer[{index}].url"), access.unused(issuer));
        }
        for index in 0..access.grants.len() {
            add(&format!("grant[{index}].path"), access.never_matches(index));
        }
        doubts
    }
}

/// Whether the server has a public address, and serves everyone there.
fn open_to_all(config: &Config, own_addresses: &[IpAddr]) -> Option<String> {
    let is_for_all =
        |grant: &Grant| !grant.rights.is_empty() && grant.who.host.as_deref().is_none_or(|host| host == "*");
    let is_limited = config.security.grants.as_ref().is_some_and(|grants| !grants.rules().iter().any(is_for_all));
    if !config.security.methods.is_empty() || is_limited {
        return None;
    }
    let listens =
        |own: &IpAddr| config.server.listen.iter().any(|address| address.ip() == *own || takes(address.ip(), *own));
    let named = config.server.listen.iter().map(|address| address.ip()).filter(|address| !address.is_unspecified());
    let public = named.chain(own_addresses.iter().copied().filter(listens)).find(|address| is_public(*address))?;
    Some(format!(
        "{public} is a public address, and everyone who reaches it may read all files: set authentication.methods with a [[grant]], \
         limit a [[grant]] by `host`, or listen on an internal address"
    ))
}

/// Whether a server that listens on `any` address takes connections to `own`.
fn takes(any: IpAddr, own: IpAddr) -> bool {
    any.is_unspecified() && (any.is_ipv6() || own.is_ipv4())
}

fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            // 100.64.0.0/10 is for networks behind a translation of addresses.
            let is_shared = first == 100 && second & 0xc0 == 0x40;
            !(address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || is_shared
                || address.is_unspecified())
        }
        IpAddr::V6(address) => !is_internal(address),
    }
}

const fn is_internal(address: Ipv6Addr) -> bool {
    address.is_loopback() || address.is_unspecified() || address.is_unique_local() || address.is_unicast_link_local()
}

/// Whether tokens are configured for logins that cannot present them.
fn without_tls(config: &Config) -> Option<String> {
    if !config.security.methods.contains(&SecurityProtocol::Ztn) || config.tls.clients.is_some() {
        return None;
    }
    let only = if config.security.takes_plain_tokens_on_loopback { "other than those of this machine " } else { "" };
    Some(format!("\"ztn\" needs TLS, and clients {only}are not offered any: set tls.certificate and tls.key"))
}

/// Ways in which a client can be known, and the rules for them.
struct Access<'c> {
    config: &'c Config,
    grants: &'c [Grant],
    methods: Vec<Method>,
}

impl<'c> Access<'c> {
    fn of(config: &'c Config) -> Self {
        let security = &config.security;
        let grants = security.grants.as_ref().map_or(&[][..], |grants| grants.rules());
        Self { config, grants, methods: methods_of(security, config.tls.clients.is_some()) }
    }

    /// Why no token of `issuer` is of use.
    fn unused(&self, issuer: &Issuer) -> Option<String> {
        if self.grants.is_empty() {
            return Some("tokens of this issuer are not examined: write a [[grant]] for its clients".to_owned());
        }
        let is_for = |who: &Conditions| {
            (who.methods.is_empty() || who.methods.contains(&Method::Token))
                && is_met(who.issuer.as_deref(), &issuer.url)
        };
        if !self.grants.iter().any(|grant| is_for(&grant.who)) {
            return Some("no [[grant]] applies to clients with a token of this issuer".to_owned());
        }
        let has_login = self.config.security.methods.contains(&SecurityProtocol::Ztn);
        (!has_login).then(|| "no client may use a token: add \"ztn\" to authentication.methods".to_owned())
    }

    /// Why the rule at `index` applies to no request.
    fn never_matches(&self, index: usize) -> Option<String> {
        let (earlier, grant) = (self.grants.get(..index)?, self.grants.get(index)?);
        let who = &grant.who;
        let wants_proof = who.methods.is_empty() && (grant.path.uses_names() || who.asks_who());
        let is_possible = |method: &&Method| match who.methods.as_slice() {
            [] => !wants_proof || method.is_proof(),
            wanted => wanted.contains(method),
        };
        let methods: Vec<Method> = self.methods.iter().filter(is_possible).copied().collect();
        let mut issuers = self.config.security.issuers.iter();
        if methods.is_empty() && wants_proof {
            return Some(
                "never matches: it needs a proof of who the client is, and authentication.methods has none".to_owned(),
            );
        }
        if methods.is_empty() {
            return Some("never matches: no client is authenticated in one of its `methods`".to_owned());
        }
        if grant.scopes == ScopeUse::Grant && !methods.contains(&Method::Token) {
            return Some("never matches: it is for clients with a token, which none has".to_owned());
        }
        if methods == [Method::Token] && !issuers.any(|(issuer, _)| is_met(who.issuer.as_deref(), &issuer.url)) {
            return Some("never matches: no [[issuer]] is its `issuer`".to_owned());
        }
        // Of rules with the same path the first one that matches counts.
        let covers = |other: &Grant| {
            let is_same_path = other.path == grant.path && other.scopes == ScopeUse::Narrow;
            is_same_path && (other.who == *who || (other.who == Conditions::default() && !other.path.uses_names()))
        };
        if let Some(position) = earlier.iter().position(covers) {
            return Some(format!(
                "never matches: table {} of [[grant]] has the same path and matches all of its clients",
                position + 1
            ));
        }
        self.is_outside(grant).then(|| "never matches: no [[export]] has files there".to_owned())
    }

    /// Whether the path of `grant` has nothing in common with an export.
    fn is_outside(&self, grant: &Grant) -> bool {
        let path = grant.path.to_string();
        // Up to the first name of the client, at the end of a component.
        let fixed = path
            .split_once('{')
            .map_or(path.as_str(), |(fixed, _)| fixed.rsplit_once('/').map_or("/", |(fixed, _)| fixed));
        let Ok(fixed) = Lfn::parse(if fixed.is_empty() { "/" } else { fixed }) else { return false };
        let holds = |prefix: &Lfn| prefix.is_within(&fixed) || fixed.is_within(prefix);
        self.config.forwarding == AllowList::default() && !self.config.exports.iter().any(|export| holds(&export.path))
    }
}

/// How clients can be known.
fn methods_of(security: &SecurityOptions, has_tls: bool) -> Vec<Method> {
    let mut methods = vec![Method::None];
    methods.extend(security.methods.iter().filter_map(|protocol| match protocol {
        SecurityProtocol::Gsi => Some(Method::Gsi),
        SecurityProtocol::Tls => Some(Method::Tls),
        SecurityProtocol::Sss => Some(Method::Sss),
        SecurityProtocol::Unix => Some(Method::Unix),
        SecurityProtocol::Host => Some(Method::Host),
        SecurityProtocol::Ztn => None,
    }));
    // Those that an issuer has signed, over TLS.
    let takes_tokens = security.methods.contains(&SecurityProtocol::Ztn) && security.issuers.iter().next().is_some();
    if takes_tokens && (has_tls || security.takes_plain_tokens_on_loopback) {
        methods.push(Method::Token);
    }
    if security.access_keys.is_some() {
        methods.push(Method::AccessKey);
    }
    methods
}

fn is_met(pattern: Option<&str>, text: &str) -> bool {
    pattern.is_none_or(|pattern| glob_matches(pattern.as_bytes(), text.as_bytes()))
}
