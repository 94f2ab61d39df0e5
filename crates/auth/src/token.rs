//! Bearer tokens: their transport and verification.

mod base64url;
mod claims;
mod discovery;
mod issuers;
mod jwt;
mod key_lease;
mod keys;
mod secret;
mod verified;
mod ztn;

pub use claims::TokenProfile;
pub use discovery::{DISCOVERY_LEN_MAX, DiscoveryError, discovery_urls, max_age, parse_discovery};
pub use issuers::{ISSUERS_MAX, Issuer, Issuers, IssuersError, LEEWAY_SECONDS_MAX, MissingKeys, TokenError, TokenUser};
pub use jwt::JwtError;
pub use key_lease::{KEYS_FRESH_SECONDS, KEYS_FRESH_SECONDS_DEFAULT, KeyLease, MISSING_KEY_PAUSE_SECONDS};
pub use keys::{KEY_SET_LEN_MAX, KEYS_MAX, KeySet, KeySetError};
pub use secret::{TOKEN_LEN_MAX, Token, TokenTextError, without_tokens};
pub use verified::{VERIFIED_SECONDS_MAX, VerifiedTokens};
pub use ztn::{ZtnError, ZtnParams, parse_ztn_message, ztn_message};
