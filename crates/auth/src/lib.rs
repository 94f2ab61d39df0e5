//! Authentication and authorization: decided from bytes, keys and a time that the caller passes in.
//!
//! Nothing here performs I/O or reads a clock.

mod client_login;
mod credentials;
mod der;
mod fqan;
pub mod gsi;
mod identity;
mod protocols;
mod rights;
mod rules;
mod session_key;
mod signing;
mod sigv4;
mod sss;
mod token;
mod unix;
mod unix_time;
pub mod voms;
pub mod x509;

pub use client_login::{AuthMessage, ClientLogin, LoginError, LoginPlace};
pub use credentials::{CredentialSource, CredentialUse, Credentials, CredentialsName};
pub use der::DerError;
pub use fqan::{FQAN_LEN_MAX, Fqan, FqanError};
pub use identity::{Identity, Method};
pub use protocols::{
    BINDINGS_MAX, Binding, Bindings, OFFERS_LEN_MAX, OFFERS_MAX, Offer, OffersError, Permitted, SecurityProtocol,
    TooManyBindings, parse_offers, write_offers,
};
pub use rights::{Right, Rights, Scope};
pub use rules::{
    Conditions, Decision, Explanation, GRANTS_MAX, Grant, Grants, PathTemplate, PathTemplateError, RuleName, ScopeUse,
    TooManyGrants, Unmet, Verdict, Why,
};
pub use session_key::{InitVector, SEALED_LEN_MAX, SessionCipher, SessionKey, SessionKeyError};
pub use signing::{
    RequestSignature, RequestSigner, SIGNATURE_LEN_MAX, SignatureChecker, SigningError, SigningLevel, SigningPolicy,
};
pub use sigv4::{
    ACCESS_KEYS_LEN_MAX, AccessKey, AccessKeyError, AccessKeys, AccessKeysError, CLIENT_KEYS_LEN_MAX, ClientKey,
    EMPTY_PAYLOAD, EXPIRES_SECONDS_MAX, REGION_DEFAULT, S3Request, SKEW_SECONDS_MAX, ShownSignature, SignatureError,
    SignedRequest, UNSIGNED_PAYLOAD,
};
pub use sss::{
    KEYTAB_LEN_MAX, Keytab, KeytabError, KeytabProblem, SSS_KEYS_MAX, SSS_SEEN_MAX, SssError, SssKey, SssParams,
    SssPeer, SssSeen, SssStep, sss_message, verify_sss_message,
};
pub use token::{
    DISCOVERY_LEN_MAX, DiscoveryError, ISSUERS_MAX, Issuer, Issuers, IssuersError, JwtError, KEY_SET_LEN_MAX,
    KEYS_FRESH_SECONDS, KEYS_FRESH_SECONDS_DEFAULT, KEYS_MAX, KeyLease, KeySet, KeySetError, LEEWAY_SECONDS_MAX,
    MISSING_KEY_PAUSE_SECONDS, MissingKeys, TOKEN_LEN_MAX, Token, TokenError, TokenProfile, TokenTextError, TokenUser,
    VERIFIED_SECONDS_MAX, VerifiedTokens, ZtnError, ZtnParams, discovery_urls, max_age, parse_discovery,
    parse_ztn_message, without_tokens, ztn_message,
};
pub use unix::{HOST_MESSAGE, UnixError, parse_unix_message, unix_message};
pub use unix_time::UnixTime;
