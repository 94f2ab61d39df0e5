//! Attributes of organizations: which are believed, and why the others are not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic, its helpers too")]

use crate::pki;
use crate::pki::voms::{AttributeDraft, extension, proxy_with, proxy_with_raw};
use crate::pki::{Authority, DAY, HOUR, Holder, NOW};
use forebay_auth::UnixTime;
use forebay_auth::voms::{AttributeCertificateError, Attributes, VomsDir, VomsError, VomsFault, VomsSite, attributes};
use forebay_auth::x509::{Chain, TrustAnchors, TrustRules};

const LSC: &str = "/DC=org/DC=grid/CN=voms.site.org\n/DC=org/DC=grid/CN=CA\n";
const PROD: &str = "/atlas/Role=production/Capability=NULL";

/// An authority, a person and a server that may speak for one organization.
struct World {
    authority: Authority,
    jane: Holder,
    server: Holder,
    dir: VomsDir,
}

impl World {
    fn new() -> Self {
        let authority = Authority::new("CA");
        let (jane, server) = (authority.person("Jane"), authority.host("voms.site.org"));
        let mut dir = VomsDir::default();
        dir.add_lsc("atlas", LSC.as_bytes()).unwrap();
        Self { authority, jane, server, dir }
    }

    fn draft(&self, names: &[&'static str]) -> AttributeDraft {
        AttributeDraft::of(&self.jane, &self.server, names)
    }

    fn read(&self, chain: &Chain) -> Attributes {
        self.read_at(chain, NOW)
    }

    fn read_at(&self, chain: &Chain, now: UnixTime) -> Attributes {
        read(chain, &self.dir, &self.authority.anchors(), now)
    }

    /// Why an attribute certificate alone is not believed.
    fn refusal(&self, draft: AttributeDraft) -> VomsError {
        let mut attributes = self.read(&proxy_with(&self.jane, &[draft.sign()]).chain());
        assert!(attributes.names.is_empty() && attributes.valid_until.is_none(), "{attributes:?}");
        assert_eq!(attributes.refusals.len(), 1);
        attributes.refusals.remove(0)
    }
}

fn read(chain: &Chain, dir: &VomsDir, trust: &TrustAnchors, now: UnixTime) -> Attributes {
    attributes(chain, VomsSite { dir, trust, rules: &TrustRules::default(), host: "cache.site.org" }, now)
}

fn names(attributes: &Attributes) -> Vec<String> {
    attributes.names.iter().map(ToString::to_string).collect()
}

#[test]
fn attributes_of_a_listed_server_are_believed_in_their_order() {
    let world = World::new();
    let proxy =
        proxy_with(&world.jane, &[world.draft(&[PROD, "/atlas/Role=NULL/Capability=NULL", "/atlas/higgs"]).sign()]);
    let attributes = world.read(&proxy.chain());
    assert_eq!(names(&attributes), ["/atlas/Role=production", "/atlas", "/atlas/higgs"]);
    assert!(attributes.refusals.is_empty());
    assert_eq!(attributes.valid_until, Some(NOW.plus(DAY)));
}

#[test]
fn attributes_are_found_in_a_proxy_further_up() {
    let world = World::new();
    let proxy = proxy_with(&world.jane, &[world.draft(&[PROD]).sign()]).proxy();
    assert_eq!(names(&world.read(&proxy.chain())), ["/atlas/Role=production"]);
}

#[test]
fn the_last_proxy_with_attributes_counts() {
    let world = World::new();
    let upper = proxy_with(&world.jane, &[world.draft(&[PROD]).sign()]);
    let lower = proxy_with(&upper, &[world.draft(&["/atlas"]).sign()]);
    assert_eq!(names(&world.read(&lower.chain())), ["/atlas"]);
}

#[test]
fn chains_without_attributes_have_none() {
    let attributes = World::new().read(&World::new().jane.proxy().chain());
    assert!(attributes.names.is_empty() && attributes.refusals.is_empty());
}

#[test]
fn several_organizations_speak_in_one_proxy() {
    let mut world = World::new();
    world.dir.add_lsc("cms", LSC.as_bytes()).unwrap();
    let cms = AttributeDraft { organization: "cms", until: NOW.plus(HOUR), ..world.draft(&["/cms"]) }.sign();
    let lhcb = AttributeDraft { organization: "lhcb", ..world.draft(&["/lhcb"]) }.sign();
    let attributes = world.read(&proxy_with(&world.jane, &[cms, lhcb, world.draft(&[PROD]).sign()]).chain());
    assert_eq!(names(&attributes), ["/cms", "/atlas/Role=production"]);
    assert_eq!(attributes.valid_until, Some(NOW.plus(HOUR)));
    assert!(
        matches!(&attributes.refusals[..], [VomsError::Of(organization, VomsFault::UnknownOrganization)] if organization == "lhcb")
    );
}

#[test]
fn holders_may_be_named_by_issuer_or_subject() {
    let world = World::new();
    let draft = AttributeDraft { names_subject: true, ..world.draft(&[PROD]) };
    assert_eq!(world.read(&proxy_with(&world.jane, &[draft.sign()]).chain()).names.len(), 1);
}

#[test]
fn attributes_of_another_person_are_refused() {
    let world = World::new();
    let joe = world.authority.person("Joe");
    let draft = AttributeDraft { holder: joe.certificates[0].clone(), ..world.draft(&[PROD]) };
    let error = world.refusal(draft);
    assert_eq!(error.to_string(), "attributes of atlas: they are not those of /DC=org/DC=grid/CN=Jane");
}

#[test]
fn tampered_attributes_are_refused() {
    let world = World::new();
    let mut certificate = world.draft(&[PROD]).sign();
    let at = certificate.windows(10).position(|bytes| bytes == b"production").unwrap();
    certificate[at..at + 10].copy_from_slice(b"superadmin");
    let attributes = world.read(&proxy_with(&world.jane, &[certificate]).chain());
    assert!(attributes.names.is_empty());
    assert!(matches!(&attributes.refusals[..], [VomsError::Of(_, VomsFault::Signature { .. })]));
    let forged = AttributeDraft { key: pki::key(6), ..world.draft(&[PROD]) };
    assert!(matches!(world.refusal(forged), VomsError::Of(_, VomsFault::Signature { .. })));
}

#[test]
fn servers_that_no_file_lists_are_refused() {
    let world = World::new();
    let other = world.authority.host("evil.site.org");
    let draft = AttributeDraft::of(&world.jane, &other, &[PROD]);
    assert!(matches!(world.refusal(draft), VomsError::Of(_, VomsFault::NotListed { .. })));
}

#[test]
fn a_server_of_the_listed_name_from_another_authority_is_refused() {
    let world = World::new();
    let other = Authority::new("Other");
    let draft = AttributeDraft::of(&world.jane, &other.host("voms.site.org"), &[PROD]);
    assert!(matches!(world.refusal(draft), VomsError::Of(_, VomsFault::NotListed { .. })));
    let mut namesake = Authority::new("CA");
    namesake.key = pki::key(6);
    let draft = AttributeDraft::of(&world.jane, &namesake.host("voms.site.org"), &[PROD]);
    assert!(matches!(world.refusal(draft), VomsError::Of(_, VomsFault::Trust(_))));
}

#[test]
fn attributes_are_valid_in_their_time_with_some_minutes_of_grace() {
    let world = World::new();
    let draft = AttributeDraft { from: NOW, until: NOW.plus(HOUR), ..world.draft(&[PROD]) };
    let chain = proxy_with(&world.jane, &[draft.sign()]).chain();
    for (at, is_valid) in [(-301, false), (-300, true), (HOUR + 300, true), (HOUR + 301, false)] {
        let attributes = world.read_at(&chain, NOW.plus(at));
        assert_eq!(attributes.names.len(), usize::from(is_valid), "{at}");
        let is_refused = matches!(
            &attributes.refusals[..],
            [VomsError::Of(_, VomsFault::Expired { .. }) | VomsError::Of(_, VomsFault::NotYetValid { .. })]
        );
        assert_eq!(is_refused, !is_valid, "{at}");
    }
}

#[test]
fn attributes_for_certain_hosts_are_good_there_only() {
    let world = World::new();
    let ours = AttributeDraft { targets: Some(vec!["a.site.org", "Cache.site.org"]), ..world.draft(&[PROD]) };
    assert_eq!(world.read(&proxy_with(&world.jane, &[ours.sign()]).chain()).names.len(), 1);
    let others = AttributeDraft { targets: Some(vec!["a.site.org"]), ..world.draft(&[PROD]) };
    assert!(matches!(world.refusal(others), VomsError::Of(_, VomsFault::Target { .. })));
    let no_host = AttributeDraft { targets: Some(Vec::new()), ..world.draft(&[PROD]) };
    assert!(matches!(world.refusal(no_host), VomsError::Of(_, VomsFault::Target { .. })));
}

#[test]
fn servers_hand_out_attributes_of_their_own_organization_only() {
    let world = World::new();
    let proxy = proxy_with(&world.jane, &[world.draft(&["/cms/Role=admin", "/atlas", "no name", "/atlasx"]).sign()]);
    let attributes = world.read(&proxy.chain());
    assert_eq!(names(&attributes), ["/atlas"]);
    assert!(matches!(
        &attributes.refusals[..],
        [
            VomsError::Of(_, VomsFault::Foreign { .. }),
            VomsError::Of(_, VomsFault::Name(_)),
            VomsError::Of(_, VomsFault::Foreign { .. })
        ]
    ));
}

#[test]
fn certificates_in_the_directory_are_another_way() {
    let world = World::new();
    let mut dir = VomsDir::default();
    dir.add_certificates("atlas", &world.server.pem()).unwrap();
    let draft = AttributeDraft { certificates: Vec::new(), ..world.draft(&[PROD]) };
    let chain = proxy_with(&world.jane, &[draft.sign()]).chain();
    assert_eq!(read(&chain, &dir, &world.authority.anchors(), NOW).names.len(), 1);
    let attributes = read(&chain, &world.dir, &world.authority.anchors(), NOW);
    assert!(matches!(&attributes.refusals[..], [VomsError::Of(_, VomsFault::NoServer)]));
    let attributes = read(&chain, &dir, &Authority::new("Other").anchors(), NOW);
    assert!(matches!(&attributes.refusals[..], [VomsError::Of(_, VomsFault::Trust(_))]));
}

#[test]
fn longer_chains_of_servers_are_listed_name_by_name() {
    let mut world = World::new();
    let middle = world.authority.below("Middle");
    let mut server = middle.host("voms.site.org");
    server.certificates.push(middle.certificate);
    let chain = proxy_with(&world.jane, &[AttributeDraft::of(&world.jane, &server, &[PROD]).sign()]).chain();
    assert!(matches!(&world.read(&chain).refusals[..], [VomsError::Of(_, VomsFault::NotListed { .. })]));
    let listed = "/DC=org/DC=grid/CN=voms.site.org\n/DC=org/DC=grid/CN=Middle\n/DC=org/DC=grid/CN=CA\n";
    world.dir.add_lsc("atlas", listed.as_bytes()).unwrap();
    assert_eq!(world.read(&chain).names.len(), 1);
}

#[test]
fn critical_extensions_that_are_not_known_make_it_unreadable() {
    let world = World::new();
    let with = |is_critical| {
        let draft = AttributeDraft { extra: vec![extension("1.2.3", is_critical, &[5, 0])], ..world.draft(&[PROD]) };
        world.read(&proxy_with(&world.jane, &[draft.sign()]).chain())
    };
    assert_eq!(with(false).names.len(), 1);
    assert!(matches!(&with(true).refusals[..], [VomsError::Form(AttributeCertificateError::Extension)]));
}

#[test]
fn what_cannot_be_read_gives_a_reason_and_no_attributes() {
    let world = World::new();
    let good = {
        let certificate = world.draft(&[PROD]).sign();
        pki::der::sequence(&[pki::der::sequence(&[certificate])])
    };
    for at in (0..good.len()).step_by(7) {
        let mut damaged = good.clone();
        damaged[at] ^= 0x55;
        let attributes = world.read(&proxy_with_raw(&world.jane, &damaged).chain());
        assert_eq!((attributes.names.len(), attributes.refusals.len()), (0, 1), "byte {at}");
    }
    let many = vec![world.draft(&[PROD]).sign(); 17];
    let attributes = world.read(&proxy_with(&world.jane, &many).chain());
    assert!(matches!(&attributes.refusals[..], [VomsError::Form(AttributeCertificateError::TooMany)]));
}

/// Certificates that `voms-proxy-fake` 2.1 has made, its private keys taken out; valid from 2026-11-22 for four years.
mod stock {
    use super::*;
    use forebay_auth::x509::{ChainError, TrustError};

    const NOON: UnixTime = UnixTime(1_795_348_800);
    const AUTHORITY: &[u8] = include_bytes!("../fixtures/voms-proxy-fake/ca.pem");
    const FULL: &[u8] = include_bytes!("../fixtures/voms-proxy-fake/full.pem");
    const LIMITED: &[u8] = include_bytes!("../fixtures/voms-proxy-fake/limited.pem");
    const GENERIC: &[u8] = include_bytes!("../fixtures/voms-proxy-fake/generic.pem");
    const DRAFT: &[u8] = include_bytes!("../fixtures/voms-proxy-fake/draft.pem");
    const LEGACY: &[u8] = include_bytes!("../fixtures/voms-proxy-fake/legacy.pem");

    fn trust() -> TrustAnchors {
        let mut trust = TrustAnchors::default();
        assert_eq!(trust.add_authorities(AUTHORITY).unwrap(), 1);
        trust
    }

    fn read_stock(pem: &[u8]) -> Attributes {
        let mut dir = VomsDir::default();
        dir.add_lsc("atlas", b"/DC=org/DC=grid/CN=voms.site.org\n/DC=org/DC=grid/CN=Fixture CA\n").unwrap();
        let chain = Chain::from_pem(pem).unwrap();
        let trust = trust();
        trust.verify(&chain, &TrustRules::default(), NOON).unwrap();
        read(&chain, &dir, &trust, NOON)
    }

    #[test]
    fn proxies_of_voms_are_trusted_and_their_attributes_believed() {
        let attributes = read_stock(FULL);
        assert_eq!(names(&attributes), ["/atlas/Role=production", "/atlas"]);
        assert!(attributes.refusals.is_empty());
        assert_eq!(names(&read_stock(GENERIC)), ["/atlas"]);
    }

    #[test]
    fn limited_proxies_of_voms_are_known() {
        let chain = Chain::from_pem(LIMITED).unwrap();
        assert!(chain.is_limited());
        assert_eq!(chain.subject(), "/DC=org/DC=grid/CN=Jane Doe");
        let rules = TrustRules { allow_limited: false, ..TrustRules::default() };
        assert!(matches!(trust().verify(&chain, &rules, NOON), Err(TrustError::Limited { .. })));
    }

    #[test]
    fn proxies_of_old_kinds_are_told_apart() {
        for pem in [DRAFT, LEGACY] {
            assert!(matches!(Chain::from_pem(pem), Err(ChainError::OldProxy { .. })));
        }
    }
}
