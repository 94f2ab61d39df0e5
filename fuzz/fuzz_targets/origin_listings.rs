//! Listings of origins, as WebDAV and S3 servers send them: parsers never panic, and their results keep the limits.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// The parsers alone: their crate would bring its connections and TLS along.
#[path = "../../crates/origin-http/src/answer"]
mod answer {
    pub(crate) mod multistatus;
    pub(crate) mod objects;
    pub(crate) mod xml;

    /// The one function of this module that they use.
    pub(crate) mod facts {
        pub(crate) use forebay_http_proto::unix_time;
    }
}

fuzz_target!(|xml: &[u8]| {
    if let Ok(listing) = answer::objects::parse(xml) {
        assert!(listing.entries.len() <= xml.len());
        for object in &listing.entries {
            assert!(object.key.len() <= xml.len());
        }
        assert_eq!(answer::objects::parse(xml).as_ref(), Ok(&listing));
    }
    if let Ok(resources) = answer::multistatus::parse(xml) {
        assert!(resources.len() <= xml.len());
        for resource in &resources {
            assert!(resource.path.len() <= xml.len());
        }
        assert_eq!(answer::multistatus::parse(xml).as_ref(), Ok(&resources));
    }
});
