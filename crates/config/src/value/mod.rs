//! Forms of values: how the value of a setting is written, its unit, its limits, and the message about a wrong one.

mod choice;
mod duration;
mod field;
mod number;
mod redirects;
mod text;
mod toml_type;

pub(crate) use choice::{CredentialMethod, IndexNaming, PlainTokens, Probe, Visibility};
pub(crate) use duration::{DurationOrZero, Never, Off, Or, Time, Unlimited, Validity};
pub(crate) use field::{Fault, Field, Form, List};
pub(crate) use number::{CountMark, Fraction, Mode, Number, Size};
pub(crate) use redirects::Redirects;
pub(crate) use text::{
    AddressPattern, Ciphers, Collector, DnsName, Filler, Group, IndexName, IssuerUrl, Line, LogFilter, Mapping,
    MemberPort, Organization, OriginPattern, Pattern, Region, SearchUrl,
};
pub(crate) use toml_type::found;
