//! Authentication: certification authorities, virtual organizations, keys and token issuers, read from files that are reloaded
//! when they change; keys of token issuers also from the issuers themselves.

mod attempt;
mod authorities;
mod certificate;
mod examination;
mod files;
mod gate;
mod issuer_keys;
mod options;
mod organizations;
mod origin_credentials;
mod reloading_file;

pub use attempt::{Attempt, ClientFacts, Proof, Refusal, Step};
pub use authorities::{Authorities, Fault};
pub use examination::examine;
pub use files::{DIRECTORY_ENTRIES_MAX, FILE_LEN_MAX, FileError, Fingerprint, list, read, read_secret};
pub use gate::{Demand, Gate, GateFiles, NoWayIn};
pub use issuer_keys::{
    FETCH_TIME_MAX, FetchError, FetchedKeys, IssuerAuthorities, IssuerClient, IssuerDiscovery, check_issuer_url,
};
pub use options::{SecurityOptions, VomsUse};
pub use organizations::Organizations;
pub use origin_credentials::{CredentialOptions, CredentialRule, OriginCredentials, OriginProof, UserCredentials};
pub use reloading_file::{LoadError, ReloadingFile};
