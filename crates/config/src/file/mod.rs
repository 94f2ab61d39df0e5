//! The file: all settings, declared once, with their forms, defaults and meaning.

mod cluster;
mod dcap;
mod declare;
mod http;
mod namespace;
mod records;
mod security;
mod server;
mod source;
mod storage;

pub(crate) use declare::{Mistakes, Section, Setting, Table, Unknown, Written};
pub(crate) use http::RawBucket;
pub(crate) use namespace::{RawExport, RawReadAhead, RawRule};
pub(crate) use records::RawSearch;
pub(crate) use security::{RawBinding, RawCredential, RawGrant, RawIssuer};
pub(crate) use server::{RawAdmin, RawTls, RawTrace};
pub(crate) use source::{Source, declared};
pub(crate) use storage::{RawDisk, RawExpiry, RawPurge, RawQuota};

use crate::value::Fault;
use toml::{Spanned, de::DeTable};

/// Declares the tables of the file, in the order of the documents.
macro_rules! file {
    ($( $name:ident: $table:ty, )+) => {
        /// The file as it is written.
        #[derive(Default)]
        pub(crate) struct Raw {
            $( pub(crate) $name: $table, )+
            pub(crate) mistakes: Mistakes,
            /// Violations of the syntax. The settings in their lines may be missing or wrong.
            pub(crate) broken: Vec<Fault>,
        }

        pub(crate) const SECTIONS: &[Section] = &[$( <$table as Table>::SECTION ),+];

        impl Raw {
            pub(crate) fn read(file: DeTable<'_>, duplicates: Vec<Fault>, broken: Vec<Fault>) -> Self {
                let (mut raw, mut mistakes) = (Self { broken, ..Self::default() }, Mistakes { faults: duplicates, ..Mistakes::default() });
                for (name, value) in file {
                    match name.get_ref().as_ref() {
                        $( stringify!($name) => raw.$name = <$table as Table>::read(value, &mut mistakes), )+
                        _ => mistakes.unknown.push(Unknown {
                            section: None,
                            span: name.span(),
                            name: name.into_inner().into_owned(),
                        }),
                    }
                }
                raw.mistakes = mistakes;
                raw
            }

            pub(crate) fn written(&self) -> Vec<Written<'_>> {
                let mut written = Vec::new();
                $( written.extend(self.$name.written()); )+
                written
            }
        }
    };
}

file! {
    server: server::RawServer,
    http: http::RawHttp,
    s3: http::RawS3,
    bucket: Vec<Spanned<RawBucket>>,
    dcap: dcap::RawDcap,
    tls: RawTls,
    authentication: security::RawAuthentication,
    binding: Vec<Spanned<RawBinding>>,
    issuer: Vec<Spanned<RawIssuer>>,
    grant: Vec<Spanned<RawGrant>>,
    credential: Vec<Spanned<RawCredential>>,
    admin: RawAdmin,
    store: storage::RawStore,
    disk: Vec<Spanned<RawDisk>>,
    index: storage::RawIndex,
    purge: RawPurge,
    quota: Vec<Spanned<RawQuota>>,
    expiry: Vec<Spanned<RawExpiry>>,
    integrity: storage::RawIntegrity,
    memory: storage::RawMemory,
    export: Vec<Spanned<RawExport>>,
    forwarding: namespace::RawForwarding,
    direct: server::RawDirect,
    manager: server::RawManager,
    cluster: cluster::RawCluster,
    decision: namespace::RawDecision,
    rule: Vec<Spanned<RawRule>>,
    read_ahead: RawReadAhead,
    origin: namespace::RawOrigin,
    logging: server::RawLogging,
    trace: RawTrace,
    monitoring: server::RawMonitoring,
    records: records::RawRecords,
    opensearch: records::RawSearch,
}

impl Raw {
    /// Whether an origin is asked, on behalf of clients, for permission to serve some files.
    pub(crate) fn checks_origin(&self) -> bool {
        self.forwarding.origin_check.value() == Some(true)
            || self.export.iter().any(|export| export.get_ref().origin_check.value() == Some(true))
    }
}

/// The declaration of `table.key`.
pub(crate) fn setting(name: &str) -> Option<&'static Setting> {
    settings().find(|setting| setting.name == name)
}

pub(crate) fn settings() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().flat_map(|section| section.settings)
}
