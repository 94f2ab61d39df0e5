//! Signatures of requests that clients of S3 send, in a field of the header or in the query.

use super::{ALGORITHM, EMPTY_PAYLOAD, S3Request, SERVICE, UNSIGNED_PAYLOAD, access_keys::ClientKey, day_of};
use crate::UnixTime;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// Difference of the clocks of client and server that is tolerated, in seconds.
pub const SKEW_SECONDS_MAX: i64 = 900;

/// Longest validity of a signature in a query, in seconds.
pub const EXPIRES_SECONDS_MAX: i64 = 604_800;

/// Most signed fields of a request.
const SIGNED_FIELDS_MAX: usize = 64;

/// Most parameters of a signed request.
const PARAMETERS_MAX: usize = 100;

/// Bytes that are encoded in parameters of a signed request.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The same in paths.
const ENCODED_IN_PATHS: &AsciiSet = &ENCODED.remove(b'/');

/// A request of a client of S3, as it was received.
#[derive(Clone, Copy)]
pub struct SignedRequest<'a> {
    pub method: &'a str,
    /// The path as it was sent.
    pub path: &'a str,
    /// The query as it was sent.
    pub query: &'a str,
    /// The value of a field by its name in lower case; several values are separated by commas.
    pub field: &'a dyn Fn(&str) -> Option<String>,
}

/// A signature as a request shows it. It proves nothing before it was checked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ShownSignature {
    /// The id of the access key.
    pub key_id: String,
    day: String,
    region: String,
    time: String,
    signed_fields: Vec<String>,
    signature: String,
    /// Validity in seconds, of a signature in the query.
    expires: Option<i64>,
}

/// Why a signature was refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SignatureError {
    #[error("the signature is malformed: {0}")]
    Malformed(&'static str),
    #[error("only signatures of version 4 (AWS4-HMAC-SHA256) are accepted")]
    Version,
    #[error("the access key is not known here")]
    UnknownKey,
    #[error("the clocks of client and server differ by more than {} minutes", SKEW_SECONDS_MAX / 60)]
    Skewed,
    #[error("the signed URL has expired")]
    Expired,
    #[error("the signature does not match the request: check the secret key, and that no proxy changes the request")]
    Mismatch,
}

impl ShownSignature {
    /// Reads the signature of a request; `None` if it is not signed.
    ///
    /// # Errors
    /// [`SignatureError::Malformed`], [`SignatureError::Version`].
    pub fn of(request: &SignedRequest<'_>) -> Result<Option<Self>, SignatureError> {
        let of_query = |name: &str| parameter(request.query, name);
        match ((request.field)("authorization"), of_query("X-Amz-Algorithm")) {
            (Some(value), None) => Self::of_field(&value, request).map(Some),
            (None, Some(algorithm)) if algorithm == ALGORITHM => Self::of_query(of_query).map(Some),
            (None, Some(_)) => Err(SignatureError::Version),
            (Some(_), Some(_)) => Err(SignatureError::Malformed("it is in the header and in the query")),
            // Version 2 has other parameters.
            (None, None) if of_query("Signature").is_some() && of_query("AWSAccessKeyId").is_some() => {
                Err(SignatureError::Version)
            }
            (None, None) => Ok(None),
        }
    }

    fn of_field(value: &str, request: &SignedRequest<'_>) -> Result<Self, SignatureError> {
        let rest = value.trim().strip_prefix(ALGORITHM).ok_or(SignatureError::Version)?;
        let part = |name: &str| {
            let mut parts = rest.split(',').filter_map(|part| part.trim().split_once('='));
            parts.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let time = (request.field)("x-amz-date").ok_or(SignatureError::Malformed("x-amz-date is missing"))?;
        let shown = Self::of_parts(part("Credential"), part("SignedHeaders"), part("Signature"), time)?;
        // Otherwise an old signature could be sent with a new time.
        if !shown.signed_fields.iter().any(|name| name == "x-amz-date") {
            return Err(SignatureError::Malformed("x-amz-date is not signed"));
        }
        Ok(shown)
    }

    fn of_query(of_query: impl Fn(&str) -> Option<String>) -> Result<Self, SignatureError> {
        let time = of_query("X-Amz-Date").ok_or(SignatureError::Malformed("X-Amz-Date is missing"))?;
        let expires = of_query("X-Amz-Expires").and_then(|text| text.parse::<i64>().ok());
        let expires = expires.filter(|seconds| (1..=EXPIRES_SECONDS_MAX).contains(seconds));
        let expires = expires.ok_or(SignatureError::Malformed("X-Amz-Expires is not between 1 and 604800"))?;
        let (fields, signature) = (of_query("X-Amz-SignedHeaders"), of_query("X-Amz-Signature"));
        let shown = Self::of_parts(of_query("X-Amz-Credential"), fields, signature, time)?;
        Ok(Self { expires: Some(expires), ..shown })
    }

    fn of_parts(
        credential: Option<String>,
        fields: Option<String>,
        signature: Option<String>,
        time: String,
    ) -> Result<Self, SignatureError> {
        let (Some(credential), Some(fields), Some(signature)) = (credential, fields, signature) else {
            return Err(SignatureError::Malformed("credential, signed fields or signature are missing"));
        };
        // The id may contain slashes.
        let mut scope = credential.rsplitn(5, '/');
        let (Some("aws4_request"), Some(SERVICE), Some(region), Some(day), Some(key_id)) =
            (scope.next(), scope.next(), scope.next(), scope.next(), scope.next())
        else {
            return Err(SignatureError::Malformed("the credential is not KEY/DAY/REGION/s3/aws4_request"));
        };
        if day != day_of(&time) {
            return Err(SignatureError::Malformed("the credential is of another day"));
        }
        let signed_fields: Vec<String> = fields.split(';').map(str::to_ascii_lowercase).collect();
        if signed_fields.len() > SIGNED_FIELDS_MAX || !signed_fields.iter().any(|name| name == "host") {
            return Err(SignatureError::Malformed("the signed fields are too many, or lack host"));
        }
        let (key_id, day, region) = (key_id.to_owned(), day.to_owned(), region.to_owned());
        Ok(Self { key_id, day, region, time, signed_fields, signature, expires: None })
    }

    /// Checks that the owner of `key` has signed the request, and that the signature is valid at `now`.
    ///
    /// # Errors
    /// See [`SignatureError`].
    pub fn check(&self, key: &ClientKey, request: &SignedRequest<'_>, now: UnixTime) -> Result<(), SignatureError> {
        self.check_time(now)?;
        let fields = self.values(request)?;
        let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let shown_payload = (request.field)("x-amz-content-sha256");
        let payload = match &shown_payload {
            Some(payload) => payload.as_str(),
            None if self.expires.is_some() => UNSIGNED_PAYLOAD,
            // curl 7.88 signs the checksum of an empty body without sending it.
            None => EMPTY_PAYLOAD,
        };
        let key = key.of_region(&self.key_id, &self.region);
        let query = canonical_query(request.query)?;
        let path = percent_decode_str(request.path).collect::<Vec<u8>>();
        let path = percent_encode(&path, ENCODED_IN_PATHS).to_string();
        // Clients encode a path in their own ways. curl 7.88 signs path and query as they are written.
        for (path, query) in [(path.as_str(), query.as_str()), (request.path, &query), (request.path, request.query)] {
            let signed = S3Request { method: request.method, path, query, fields: &fields, payload };
            let expected = key.signature(&signed, &self.time).map_err(|_| SignatureError::Mismatch)?;
            let (expected, shown) = (expected.as_bytes(), self.signature.as_bytes());
            if expected.len() == shown.len() && openssl::memcmp::eq(expected, shown) {
                return Ok(());
            }
        }
        Err(SignatureError::Mismatch)
    }

    fn check_time(&self, now: UnixTime) -> Result<(), SignatureError> {
        let time = time_of(&self.time).ok_or(SignatureError::Malformed("the time is not YYYYMMDDThhmmssZ"))?;
        let age = now.seconds_since(time);
        match self.expires {
            _ if age < -SKEW_SECONDS_MAX => Err(SignatureError::Skewed),
            Some(expires) if age > expires => Err(SignatureError::Expired),
            None if age > SKEW_SECONDS_MAX => Err(SignatureError::Skewed),
            _ => Ok(()),
        }
    }

    /// The signed fields with their values: without blanks around them, and single ones within.
    fn values(&self, request: &SignedRequest<'_>) -> Result<Vec<(&str, String)>, SignatureError> {
        let mut values = Vec::with_capacity(self.signed_fields.len());
        for name in &self.signed_fields {
            let value = (request.field)(name).ok_or(SignatureError::Mismatch)?;
            let value = value.split([' ', '\t']).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
            values.push((name.as_str(), value));
        }
        Ok(values)
    }
}

/// The decoded value of a parameter.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(key, _)| *key == name).map(|(_, value)| value)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}

/// The parameters in the form that is signed: sorted, encoded in one way, without the signature.
fn canonical_query(query: &str) -> Result<String, SignatureError> {
    let encode = |text: &str| {
        let bytes = percent_decode_str(text).collect::<Vec<u8>>();
        percent_encode(&bytes, ENCODED).to_string()
    };
    let mut pairs = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if pairs.len() >= PARAMETERS_MAX {
            return Err(SignatureError::Malformed("the request has too many parameters"));
        }
        if key != "X-Amz-Signature" {
            pairs.push((encode(key), encode(value)));
        }
    }
    pairs.sort();
    Ok(pairs.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join("&"))
}

/// A time such as `20130524T000000Z`.
fn time_of(text: &str) -> Option<UnixTime> {
    let bytes = text.as_bytes();
    let is_formed = bytes.len() == 16 && bytes.get(8) == Some(&b'T') && bytes.get(15) == Some(&b'Z');
    if !is_formed {
        return None;
    }
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        if digits.bytes().all(|digit| digit.is_ascii_digit()) { digits.parse::<i64>().ok() } else { None }
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let is_time = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    is_time.then(|| UnixTime::of_date(year, month, day).plus(hour * 3_600 + minute * 60 + second))
}

#[cfg(test)]
mod tests {
    use super::{super::AccessKeys, *};

    const NOW: UnixTime = UnixTime(1_369_353_600);

    const FILE: &[u8] = b"[ann]\naws_access_key_id = AKIAIOSFODNN7EXAMPLE\n\
        aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n";

    /// Checks the signature of a request; the user who has signed it.
    fn user_of(
        path: &str,
        query: &str,
        fields: &[(&str, &str)],
        now: UnixTime,
    ) -> Result<Option<String>, SignatureError> {
        let field = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let request = SignedRequest { method: "GET", path, query, field: &field };
        let keys = AccessKeys::parse(FILE).unwrap();
        let Some(shown) = ShownSignature::of(&request)? else { return Ok(None) };
        let key = keys.get(&shown.key_id).ok_or(SignatureError::UnknownKey)?;
        shown.check(key, &request, now)?;
        Ok(Some(key.user.clone()))
    }

    const CREDENTIAL: &str = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,";

    fn with_range(authorization: &str) -> [(&'static str, String); 5] {
        [
            ("host", "examplebucket.s3.amazonaws.com".to_owned()),
            ("range", "bytes=0-9".to_owned()),
            ("x-amz-content-sha256", EMPTY_PAYLOAD.to_owned()),
            ("x-amz-date", "20130524T000000Z".to_owned()),
            ("authorization", authorization.to_owned()),
        ]
    }

    fn signed(signature: &str) -> String {
        format!("{CREDENTIAL} SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature={signature}")
    }

    const SIGNATURE: &str = "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";

    #[test]
    fn the_published_examples_are_accepted() {
        let fields = with_range(&signed(SIGNATURE));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(user_of("/test.txt", "", &fields, NOW), Ok(Some("ann".to_owned())));
        assert_eq!(user_of("/other.txt", "", &fields, NOW), Err(SignatureError::Mismatch));
        assert_eq!(user_of("/test.txt", "", &fields, NOW.plus(SKEW_SECONDS_MAX + 1)), Err(SignatureError::Skewed));
        assert_eq!(user_of("/test.txt", "", &fields, NOW.plus(-SKEW_SECONDS_MAX - 1)), Err(SignatureError::Skewed));
        assert_eq!(user_of("/test.txt", "", &fields[..4], NOW), Ok(None));
        let presigned = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2F\
                         aws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host&X-Amz-Signature=\
                         aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
        let host = &fields[..1];
        assert_eq!(user_of("/test.txt", presigned, host, NOW.plus(86_400)), Ok(Some("ann".to_owned())));
        assert_eq!(user_of("/test.txt", presigned, host, NOW.plus(86_401)), Err(SignatureError::Expired));
        assert_eq!(user_of("/test.txt", &format!("{presigned}&a=b"), host, NOW), Err(SignatureError::Mismatch));
    }

    #[test]
    fn requests_that_are_signed_otherwise_are_refused() {
        let refused = |authorization: &str, query: &str| {
            let fields = with_range(authorization);
            let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
            user_of("/test.txt", query, &fields, NOW).unwrap_err()
        };
        let is_malformed = |error| matches!(error, SignatureError::Malformed(_));
        assert_eq!(refused(&signed(&SIGNATURE.replace('f', "e")), ""), SignatureError::Mismatch);
        assert_eq!(refused(&signed(&SIGNATURE[1..]), ""), SignatureError::Mismatch);
        assert_eq!(refused(&signed(SIGNATURE).replace("AKIA", "BKIA"), ""), SignatureError::UnknownKey);
        assert_eq!(refused("AWS AKIAIOSFODNN7EXAMPLE:xyz", ""), SignatureError::Version);
        assert_eq!(refused("Bearer token", ""), SignatureError::Version);
        assert!(is_malformed(refused(&signed(SIGNATURE).replace("20130524/", "20130525/"), "")));
        assert!(is_malformed(refused(&signed(SIGNATURE).replace("/s3/", "/iam/"), "")));
        assert!(is_malformed(refused(&signed(SIGNATURE).replace("host;", ""), "")));
        assert!(is_malformed(refused(&signed(SIGNATURE).replace(";x-amz-date", ""), "")));
        assert!(is_malformed(refused(&signed(SIGNATURE), "X-Amz-Algorithm=AWS4-HMAC-SHA256")));
        let many = vec!["a=b"; PARAMETERS_MAX + 1].join("&");
        assert!(is_malformed(refused(&signed(SIGNATURE), &many)));
    }

    #[test]
    fn parameters_are_sorted_and_encoded_in_one_way() {
        assert_eq!(
            canonical_query("prefix=a/b%20c&list-type=2&acl&&X-Amz-Signature=x").unwrap(),
            "acl=&list-type=2&prefix=a%2Fb%20c"
        );
    }

    #[test]
    fn times_are_read_strictly() {
        assert_eq!(time_of("20130524T000000Z"), Some(NOW));
        assert_eq!(time_of("19700101T000001Z"), Some(UnixTime(1)));
        for text in
            ["", "20130524T000000", "20130524 000000Z", "20131324T000000Z", "2013052+T000000Z", "20130524T250000Z"]
        {
            assert_eq!(time_of(text), None, "{text}");
        }
    }
}
