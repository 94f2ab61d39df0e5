//! A request of a client of S3: target, `Authorization`, `x-amz-date` and `host` in lines. Nothing panics, no signature is accepted without its
//! secret, and tokens of listings lead on.

#![no_main]

use forebay_auth::{AccessKeys, ShownSignature, SignedRequest, UnixTime};
use forebay_http_proto::{
    Method, Target,
    s3::{ListRequest, Listed, ObjectName, Operation, Page, list_document, operation_of},
};
use libfuzzer_sys::fuzz_target;

const KEYS: &[u8] = b"[ann]\naws_access_key_id = A\naws_secret_access_key = a secret that no input has\n";

fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let lines: Vec<&str> = text.split('\n').collect();
    let line = |number: usize| lines.get(number).copied().unwrap_or_default();
    let field = |name: &str| {
        let value = match name {
            "authorization" => line(1),
            "x-amz-date" => line(2),
            "host" => line(3),
            _ => "",
        };
        (!value.is_empty()).then(|| value.to_owned())
    };
    let (path, query) = line(0).split_once('?').unwrap_or((line(0), ""));
    let request = SignedRequest { method: "GET", path, query, field: &field };
    let keys = AccessKeys::parse(KEYS).expect("it is complete");
    if let Ok(Some(shown)) = ShownSignature::of(&request)
        && let Some(key) = keys.get(&shown.key_id)
    {
        assert!(shown.check(key, &request, UnixTime(1_369_353_600)).is_err());
    }
    let Ok(target) = Target::parse(line(0)) else { return };
    let name = ObjectName::of(&target.path, None);
    if let Ok(Operation::List(listed)) = operation_of(Method::Get, name.as_ref(), &target) {
        continues(&listed, line(3));
    }
});

/// The token of a page names the key after which the next one begins.
fn continues(request: &ListRequest, key: &str) {
    let key: String = key.chars().take(200).collect();
    let page = Page { entries: vec![Listed::Prefix(key.clone())], next: Some(key.clone()) };
    let text = list_document("b", request, &page);
    let Some(token) = text.split("<NextContinuationToken>").nth(1).and_then(|rest| rest.split('<').next()) else { return };
    let next = format!("/b?list-type=2&continuation-token={token}");
    let target = Target::parse(&next).expect("it is a target");
    let operation = operation_of(Method::Get, ObjectName::of("/b", None).as_ref(), &target);
    assert!(matches!(operation, Ok(Operation::List(next)) if next.after == key));
}
