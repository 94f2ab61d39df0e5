//! Decisions of access rules.

use forebay_auth::*;
use forebay_types::Lfn;
use proptest::prelude::*;

const NOW: UnixTime = UnixTime(1_000);

fn rule(path: &str, rights: &[Right], who: Conditions) -> Grant {
    let path = PathTemplate::parse(path).unwrap();
    let rights = rights.iter().copied().collect();
    Grant { name: String::new(), who, path, rights, scopes: ScopeUse::Narrow }
}

fn grants(rules: &[Grant]) -> Grants {
    Grants::new(rules.to_vec()).unwrap()
}

fn path(text: &str) -> Lfn {
    Lfn::parse(text).unwrap()
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn of_vo(vo: &str) -> Conditions {
    Conditions { vo: text(vo), ..Conditions::default() }
}

fn anyone() -> Conditions {
    Conditions::default()
}

fn jane() -> Identity {
    let mut jane = Identity::of(Method::Gsi, "WN1.site.org");
    jane.user = text("jane");
    jane.subject = text("/DC=ch/OU=users/CN=Jane Doe");
    jane.issuer = text("/DC=ch/CN=Grid CA");
    let attributes = ["/atlas/higgs/Role=production", "/atlas/higgs", "/atlas"];
    jane.attributes = attributes.iter().map(|text| Fqan::parse(text).unwrap()).collect();
    jane
}

fn bearer(scopes: Option<&[(&str, Right)]>) -> Identity {
    let mut bearer = Identity::of(Method::Token, "wn1.site.org");
    bearer.subject = text("b-17");
    bearer.issuer = text("https://cms-auth.web.cern.ch/");
    bearer.groups = vec!["/cms".to_owned(), "/cms/prod".to_owned()];
    let scope = |(at, right): &(&str, Right)| Scope { rights: Rights::NONE.with(*right), path: path(at) };
    bearer.scopes = scopes.map(|scopes| scopes.iter().map(scope).collect());
    bearer
}

fn may(grants: &Grants, identity: &Identity, right: Right, at: &str) -> bool {
    grants.decide(identity, &path(at), right, NOW).is_allowed
}

#[test]
fn nothing_is_allowed_without_a_rule() {
    let decision = Grants::default();
    let decision = decision.decide(&jane(), &path("/"), Right::Stat, NOW);
    assert_eq!(decision, Decision { is_allowed: false, why: Why::NoRule });
    assert_eq!(decision.to_string(), "denied: no rule matches");
}

#[test]
fn every_condition_of_a_rule_must_hold() {
    let decides = |who: Conditions| may(&grants(&[rule("/", &[Right::Read], who)]), &jane(), Right::Read, "/f");
    let production = |group: &str| Conditions { group: text(group), role: text("production"), ..anyone() };
    for who in [
        anyone(),
        Conditions { methods: vec![Method::Sss, Method::Gsi], ..anyone() },
        Conditions { user: text("jane"), host: text("*.Site.org"), ..anyone() },
        Conditions { subject: text("/DC=ch/OU=users/*"), issuer: text("/DC=ch/CN=Grid CA"), ..anyone() },
        of_vo("atlas"),
        production("/atlas/higgs"),
        production("/atlas/*"),
        Conditions { role: text("*"), ..anyone() },
    ] {
        assert!(decides(who.clone()), "{who:?}");
    }
    for who in [
        Conditions { methods: vec![Method::Token], ..anyone() },
        Conditions { user: text("jan"), ..anyone() },
        Conditions { user: text("jane"), host: text("*.other.org"), ..anyone() },
        Conditions { subject: text("/DC=ch/OU=users"), ..anyone() },
        Conditions { issuer: text("/DC=ch"), ..anyone() },
        of_vo("cms"),
        of_vo("atlas/higgs"),
        production("/atlas"),
        Conditions { group: text("/atlas/higgs/sub"), ..anyone() },
    ] {
        assert!(!decides(who.clone()), "{who:?}");
    }
}

#[test]
fn groups_of_tokens_count_as_those_of_certificates() {
    let prod = Conditions { vo: text("cms"), group: text("/cms/prod"), ..anyone() };
    let grants = grants(&[rule("/{vo}/{group}", &[Right::Read], prod)]);
    assert!(may(&grants, &bearer(None), Right::Read, "/cms/prod/f"));
    assert!(!may(&grants, &bearer(None), Right::Read, "/cms/f"));
}

#[test]
fn what_clients_merely_say_counts_only_where_a_rule_names_the_method() {
    let mut liar = Identity::of(Method::Unix, "h");
    liar.user = text("jane");
    liar.groups = vec!["/atlas".to_owned()];
    let by_name = Conditions { user: text("jane"), ..anyone() };
    let trusting = Conditions { methods: vec![Method::Unix], ..by_name.clone() };
    let own = |methods: Vec<Method>| rule("/user/{user}", &[Right::Read], Conditions { methods, ..anyone() });
    for (rule, is_allowed) in [
        (rule("/user/jane", &[Right::Read], by_name), false),
        (rule("/user/jane", &[Right::Read], of_vo("atlas")), false),
        (own(vec![]), false),
        (own(vec![Method::Unix]), true),
        (rule("/user/jane", &[Right::Read], trusting), true),
        (rule("/user/jane", &[Right::Read], anyone()), true),
    ] {
        assert_eq!(
            may(&grants(std::slice::from_ref(&rule)), &liar, Right::Read, "/user/jane/f"),
            is_allowed,
            "{rule:?}"
        );
    }
}

#[test]
fn the_longest_path_decides_alone() {
    let grants = grants(&[
        rule("/atlas", &[Right::Read, Right::List], of_vo("atlas")),
        rule("/atlas/user", &[], anyone()),
        rule("/atlas/user/{user}", &[Right::Read], anyone()),
    ]);
    assert!(may(&grants, &jane(), Right::Read, "/atlas/data/f"));
    assert!(may(&grants, &jane(), Right::Read, "/atlas/user/jane/f"));
    assert!(!may(&grants, &jane(), Right::List, "/atlas/user/jane"));
    assert!(!may(&grants, &jane(), Right::Read, "/atlas/user/joe/f"));
    assert!(!may(&grants, &jane(), Right::Stat, "/atlas/user/joe"));
    assert!(!may(&grants, &bearer(None), Right::Read, "/atlas/data/f"));
    let denied = grants.decide(&jane(), &path("/atlas/user/joe/f"), Right::Read, NOW);
    assert_eq!(denied.to_string(), "denied by rule 2 (/atlas/user)");
}

#[test]
fn of_equally_long_paths_the_first_rule_decides() {
    let none_first = grants(&[rule("/a", &[], of_vo("atlas")), rule("/a", &[Right::Read], anyone())]);
    assert!(!may(&none_first, &jane(), Right::Read, "/a/f"));
    assert!(may(&none_first, &bearer(None), Right::Read, "/a/f"));
    let read_first = grants(&[rule("/a", &[Right::Read], anyone()), rule("/a", &[], of_vo("atlas"))]);
    assert!(may(&read_first, &jane(), Right::Read, "/a/f"));
}

#[test]
fn directories_that_lead_to_a_granted_path_may_be_known_but_not_listed() {
    let grants = grants(&[
        rule("/atlas/user", &[], anyone()),
        rule("/atlas/user/{user}/x", &[Right::Read], anyone()),
        rule("/secret/a", &[], anyone()),
        rule("/secret/a", &[Right::Read], anyone()),
    ]);
    for at in ["/", "/atlas", "/atlas/user", "/atlas/user/jane"] {
        assert!(may(&grants, &jane(), Right::Stat, at), "{at}");
        assert!(!may(&grants, &jane(), Right::List, at), "{at}");
        assert!(!may(&grants, &bearer(None), Right::Stat, at), "{at}");
    }
    assert!(!may(&grants, &jane(), Right::Stat, "/atlas/user/joe"));
    assert!(!may(&grants, &jane(), Right::Stat, "/secret"));
    let decision = grants.decide(&jane(), &path("/atlas"), Right::Stat, NOW);
    assert_eq!(decision.to_string(), "allowed: leads to the path of rule 2 (/atlas/user/{user}/x)");
}

#[test]
fn scopes_narrow_what_rules_allow() {
    let grants = grants(&[rule("/cms", &[Right::Read, Right::List], of_vo("cms"))]);
    let narrowed = bearer(Some(&[("/cms/store/mc", Right::Read), ("/atlas", Right::Read)]));
    assert!(may(&grants, &bearer(None), Right::Read, "/cms/f"));
    assert!(may(&grants, &narrowed, Right::Read, "/cms/store/mc/f"));
    assert!(may(&grants, &narrowed, Right::Stat, "/cms/store"));
    assert!(!may(&grants, &narrowed, Right::Read, "/cms/store/data/f"));
    assert!(!may(&grants, &narrowed, Right::List, "/cms/store/mc"));
    assert!(!may(&grants, &narrowed, Right::Read, "/atlas/f"));
    assert!(!may(&grants, &bearer(Some(&[])), Right::Stat, "/cms"));
    let denied = grants.decide(&narrowed, &path("/cms/f"), Right::Read, NOW);
    assert_eq!(denied.to_string(), "denied: the token's scopes do not cover what rule 1 (/cms) allows");
}

#[test]
fn scopes_grant_where_a_rule_says_so() {
    let issuer = Conditions { issuer: text("https://cms-auth.web.cern.ch/"), ..anyone() };
    let by_scope = Grant { scopes: ScopeUse::Grant, ..rule("/cms", &[Right::Read], issuer) };
    let grants = grants(&[by_scope]);
    let scoped = bearer(Some(&[("/cms/store", Right::Read)]));
    assert!(may(&grants, &scoped, Right::Read, "/cms/store/f"));
    assert!(may(&grants, &scoped, Right::Stat, "/cms"));
    assert!(!may(&grants, &scoped, Right::Read, "/cms/f"));
    assert!(!may(&grants, &bearer(None), Right::Read, "/cms/store/f"));
    assert!(!may(&grants, &jane(), Right::Read, "/cms/store/f"));
    let other = Identity { issuer: text("https://evil.example/"), ..scoped };
    assert!(!may(&grants, &other, Right::Read, "/cms/store/f"));
}

#[test]
fn expired_credentials_allow_nothing() {
    let grants = grants(&[rule("/", &[Right::Read], anyone())]);
    let expired = Identity { expires_at: Some(NOW), ..jane() };
    let decision = grants.decide(&expired, &path("/f"), Right::Read, NOW);
    assert_eq!(decision, Decision { is_allowed: false, why: Why::Expired });
}

#[test]
fn explanations_have_the_verdict_of_each_rule() {
    let grants = grants(&[
        Grant { name: "users of cms".to_owned(), ..rule("/store", &[Right::Read], of_vo("cms")) },
        rule("/atlas", &[Right::Read], of_vo("atlas")),
        rule("/store", &[Right::Stat], anyone()),
        Grant { scopes: ScopeUse::Grant, ..rule("/", &[Right::Read], anyone()) },
    ]);
    let explanation = grants.explain(&jane(), &path("/store/f"), Right::Read, NOW);
    let texts: Vec<_> = explanation.verdicts.iter().map(|(rule, verdict)| format!("{rule}: {verdict}")).collect();
    assert_eq!(
        texts,
        [
            r#"rule 1 "users of cms" (/store): for others: vo, group or role"#,
            "rule 2 (/atlas): for another path",
            "rule 3 (/store): matches, with 6 bytes of the path",
            "rule 4 (/): for tokens with scopes",
        ]
    );
    assert_eq!(explanation.decision.to_string(), "denied by rule 3 (/store)");
}

#[test]
fn lists_that_are_too_long_are_refused() {
    let rules = |count: usize| vec![rule("/", &[], anyone()); count];
    assert!(Grants::new(rules(GRANTS_MAX)).is_ok());
    assert_eq!(Grants::new(rules(GRANTS_MAX + 1)).unwrap_err(), TooManyGrants { count: GRANTS_MAX + 1 });
}

/// Rules over few paths, rights and conditions, so that many of them meet.
fn some_rules() -> impl Strategy<Value = Vec<Grant>> {
    let path = prop::sample::select(vec!["/", "/cms", "/cms/a", "/cms/a/b", "/{vo}", "/cms/{group}", "/cms/{subject}"]);
    let rights = prop::sample::subsequence(Right::ALL.to_vec(), 0..=4);
    let who =
        prop::sample::select(vec![anyone(), of_vo("cms"), of_vo("atlas"), Conditions { role: text("x"), ..anyone() }]);
    prop::collection::vec((path, rights, who).prop_map(|(path, rights, who)| rule(path, &rights, who)), 0..6)
}

fn some_path() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["/", "/cms", "/cms/a", "/cms/a/b", "/cms/a/b/c", "/cms/prod", "/cms/b-17", "/atlas/f"])
}

proptest! {
    #[test]
    fn scopes_never_add_to_what_rules_allow(rules in some_rules(), at in some_path(), scope in some_path(), right in 0_usize..4) {
        let (grants, right) = (grants(&rules), Right::ALL[right]);
        let narrowed = bearer(Some(&[(scope, right)]));
        if may(&grants, &narrowed, right, at) {
            prop_assert!(may(&grants, &bearer(None), right, at));
            prop_assert!(narrowed.scopes.unwrap()[0].covers(right, &path(at)));
        }
    }

    #[test]
    fn nothing_is_allowed_that_no_single_rule_allows(rules in some_rules(), at in some_path(), right in 0_usize..4) {
        let right = Right::ALL[right];
        if may(&grants(&rules), &bearer(None), right, at) {
            let alone = rules.iter().any(|rule| may(&grants(std::slice::from_ref(rule)), &bearer(None), right, at));
            prop_assert!(alone);
        }
    }

    #[test]
    fn a_denial_in_front_of_all_protects_its_path(rules in some_rules(), at in some_path(), right in 0_usize..4) {
        prop_assume!(Right::ALL[right] != Right::Stat);
        let mut rules = rules;
        rules.insert(0, rule(at, &[], anyone()));
        prop_assert!(!may(&grants(&rules), &bearer(None), Right::ALL[right], at));
    }

    #[test]
    fn explanations_agree_with_decisions(rules in some_rules(), at in some_path()) {
        let grants = grants(&rules);
        let explanation = grants.explain(&bearer(None), &path(at), Right::Read, NOW);
        let longest = explanation.verdicts.iter().filter_map(|(rule, verdict)| match verdict {
            Verdict::Matches { prefix_len } => Some((*prefix_len, std::cmp::Reverse(rule.number))),
            _ => None,
        });
        let decisive = longest.max().map(|(_, number)| number.0);
        match explanation.decision.why {
            Why::Rule(rule) => prop_assert_eq!(Some(rule.number), decisive),
            why => prop_assert_eq!((why, decisive), (Why::NoRule, None)),
        }
    }
}
