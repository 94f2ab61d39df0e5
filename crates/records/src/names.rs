//! Names that are derived from others: the data of a path, the address of a host.

use std::net::IpAddr;

/// The names that a path says about its data.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DataNames {
    pub dataset: String,
    pub tier: String,
    /// The primary dataset, of paths of CMS.
    pub primary: Option<String>,
    /// The era or campaign, of paths of CMS.
    pub campaign: Option<String>,
}

impl DataNames {
    /// The names of a dataset and its tier. Datasets of CMS are `/PRIMARY/ERA-PROCESSING/TIER`.
    #[must_use]
    pub fn new(dataset: String, tier: String) -> Self {
        let parts: Vec<&str> = dataset.split('/').collect();
        let (primary, campaign) = match parts.as_slice() {
            ["", primary, processed, last] if *last == tier => {
                let era = processed.split('-').next().unwrap_or_default();
                (Some((*primary).to_owned()), Some(era.to_owned()))
            }
            _ => (None, None),
        };
        Self { dataset, tier, primary, campaign }
    }
}

/// The address in the text of a host; `None` of a name.
#[must_use]
pub fn address_of(host: &str) -> Option<IpAddr> {
    host.trim_matches(['[', ']']).parse().ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datasets_of_cms_have_a_primary_and_a_campaign() {
        let names = |dataset: &str, tier: &str| {
            let names = DataNames::new(dataset.to_owned(), tier.to_owned());
            (names.primary, names.campaign)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            names("/DYto2L/Run3Summer22-130X-v2/MINIAODSIM", "MINIAODSIM"),
            (some("DYto2L"), some("Run3Summer22"))
        );
        assert_eq!(names("/store/user/ann", "USER"), (None, None));
        assert_eq!(names("mc20_13TeV:DAOD_PHYS.31066871", "DAOD_PHYS"), (None, None));
    }

    #[test]
    fn addresses_are_recognised_in_their_forms() {
        for (host, address) in [
            ("192.0.2.7", Some("192.0.2.7")),
            ("[2001:db8::1]", Some("2001:db8::1")),
            ("::ffff:192.0.2.7", Some("192.0.2.7")),
            ("node1.example.org", None),
        ] {
            assert_eq!(address_of(host).map(|found| found.to_string()).as_deref(), address, "{host}");
        }
    }
}
