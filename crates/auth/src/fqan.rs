//! Attributes of a virtual organization: group and role of a member, as VOMS writes them.

use std::fmt;

/// Longest attribute that is read, bytes.
pub const FQAN_LEN_MAX: usize = 1024;

/// A fully qualified attribute name: `/vo[/group]*[/Role=name][/Capability=name]`.
///
/// A role or capability of `NULL` is none.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fqan {
    group: String,
    role: Option<String>,
    capability: Option<String>,
}

/// Why a text was refused as an attribute name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FqanError {
    #[error("an attribute name of more than {FQAN_LEN_MAX} bytes")]
    TooLong,
    #[error("an attribute name begins with /VO")]
    NoGroup,
    #[error("an attribute name is /VO[/GROUP]...[/Role=NAME][/Capability=NAME]")]
    BadPart,
}

impl Fqan {
    /// Reads the text form.
    ///
    /// # Errors
    pub fn parse(text: &str) -> Result<Self, FqanError> {
        if text.len() > FQAN_LEN_MAX {
            return Err(FqanError::TooLong);
        }
        let parts = text.strip_prefix('/').ok_or(FqanError::NoGroup)?;
        let mut fqan = Self { group: String::new(), role: None, capability: None };
        for part in parts.split('/') {
            fqan.take(part)?;
        }
        if fqan.group.is_empty() {
            return Err(FqanError::NoGroup);
        }
        Ok(fqan)
    }

    /// The virtual organization: the first group.
    pub fn vo(&self) -> &str {
        self.group.split('/').nth(1).unwrap_or_default()
    }

    /// The group with its slashes: `/vo` or `/vo/group/subgroup`.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The role, if it is not `NULL`.
    pub fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// The capability, if it is not `NULL`.
    pub fn capability(&self) -> Option<&str> {
        self.capability.as_deref()
    }

    fn take(&mut self, part: &str) -> Result<(), FqanError> {
        let (is_in_turn, value, place) = if let Some(role) = part.strip_prefix("Role=") {
            (!self.group.is_empty() && self.role.is_none() && self.capability.is_none(), role, Some(&mut self.role))
        } else if let Some(capability) = part.strip_prefix("Capability=") {
            (!self.group.is_empty() && self.capability.is_none(), capability, Some(&mut self.capability))
        } else {
            (self.role.is_none() && self.capability.is_none(), part, None)
        };
        if !is_in_turn || !is_name(value) {
            return Err(FqanError::BadPart);
        }
        match place {
            Some(place) => *place = (value != "NULL").then(|| value.to_owned()),
            None => self.group.extend(["/", value]),
        }
        Ok(())
    }
}

fn is_name(part: &str) -> bool {
    let is_part_of_name = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'=' | b'"' | b'\\');
    !matches!(part, "" | "." | "..") && part.bytes().all(is_part_of_name)
}

impl fmt::Display for Fqan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.group)?;
        if let Some(role) = &self.role {
            write!(out, "/Role={role}")?;
        }
        if let Some(capability) = &self.capability {
            write!(out, "/Capability={capability}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_roles_and_capabilities_are_read() {
        let fqan = Fqan::parse("/atlas/higgs/prod/Role=production/Capability=NULL").unwrap();
        assert_eq!(
            (fqan.vo(), fqan.group(), fqan.role(), fqan.capability()),
            ("atlas", "/atlas/higgs/prod", Some("production"), None)
        );
        assert_eq!(fqan.to_string(), "/atlas/higgs/prod/Role=production");
        let fqan = Fqan::parse("/cms/Role=NULL/Capability=NULL").unwrap();
        assert_eq!((fqan.vo(), fqan.role(), fqan.to_string().as_str()), ("cms", None, "/cms"));
    }

    #[test]
    fn texts_that_are_no_attributes_are_refused() {
        for (text, why) in [
            ("", FqanError::NoGroup),
            ("atlas", FqanError::NoGroup),
            ("/", FqanError::BadPart),
            ("//atlas", FqanError::BadPart),
            ("/atlas/../cms", FqanError::BadPart),
            ("/atlas/", FqanError::BadPart),
            ("/Role=x", FqanError::BadPart),
            ("/atlas/Role=", FqanError::BadPart),
            ("/atlas/Role=a/Role=b", FqanError::BadPart),
            ("/atlas/Role=a/group", FqanError::BadPart),
            ("/atlas/a b", FqanError::BadPart),
            ("/atlas/a\n", FqanError::BadPart),
        ] {
            assert_eq!(Fqan::parse(text), Err(why), "{text:?}");
        }
        assert_eq!(Fqan::parse(&format!("/{}", "a".repeat(FQAN_LEN_MAX))), Err(FqanError::TooLong));
    }
}
