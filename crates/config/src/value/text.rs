//! Paths, names, patterns and addresses.

use super::field::Parse;
use crate::base::{OriginUrl, RunAs, parse_group, parse_origin_url};
use forebay_auth::PathTemplate;
use forebay_cache::{AllowList, CgiPattern, FillPolicy, PathPattern, StructureUse};
use forebay_engine::ChecksumAlgorithm;
use forebay_proto::TlsUse;
use forebay_telemetry::Sample;
use forebay_types::{BlockSize, ByteSize, ByteSizeError, Endpoint, Lfn, OriginId};
use std::{fmt::Display, net::SocketAddr, path::PathBuf};

/// Longest site or host name in bytes: it must fit an answer.
const NAME_LEN_MAX: usize = 255;

/// Longest list of cipher suites in bytes.
const CIPHERS_LEN_MAX: usize = 4096;

/// Longest pattern of rules in bytes: every open is compared with it.
const PATTERN_LEN_MAX: usize = 300;

/// Longest name or pattern of access rules in bytes: every decision compares with it.
const LINE_LEN_MAX: usize = 1024;

/// Longest name of a data stream: that of a backing index, which is longer, has at most 255 bytes.
const INDEX_NAME_LEN_MAX: usize = 200;

/// A form that is written as a text.
macro_rules! texts {
    ($($(#[doc = $doc:literal])* $form:ty => $value:ty, $kind:literal, $parse:expr;)+) => {
        $(impl Parse for $form {
            type Toml = String;
            type Value = $value;

            fn kind() -> String {
                $kind.to_owned()
            }

            fn parse(text: String) -> Result<$value, String> {
                let parse: fn(&str) -> Result<$value, String> = $parse;
                parse(&text)
            }
        })+
    };
}

/// A name without blanks.
pub(crate) struct DnsName;

/// A list of cipher suites in OpenSSL's notation.
pub(crate) struct Ciphers;

/// A pattern of rules, in which `*` is any run of characters.
pub(crate) struct Pattern;

/// A name or pattern of access rules on one line.
pub(crate) struct Line;

/// An address with `*` for any run of characters. Names are not looked up, so that the pattern of a name would never match.
pub(crate) struct AddressPattern;

/// A virtual organization.
pub(crate) struct Organization;

/// A group of this machine.
pub(crate) struct Group;

/// A directory of the store and its path on clients.
pub(crate) struct Mapping;

/// A region of origins: `NAME=HOST`, with stars in the host.
pub(crate) struct Region;

/// Origins that clients may name.
pub(crate) struct OriginPattern;

/// The server of a filler.
pub(crate) struct Filler;

/// The address of a collector of monitoring.
pub(crate) struct Collector;

/// A port of a manager or member of a cluster.
pub(crate) struct MemberPort;

/// A server of OpenSearch or Elasticsearch.
pub(crate) struct SearchUrl;

/// The name of a data stream.
pub(crate) struct IndexName;

/// A filter of log events.
pub(crate) struct LogFilter;

/// An issuer of tokens. The scheme is checked together with `plain_http`.
pub(crate) struct IssuerUrl;

texts! {
    PathBuf => Self, "path", |text| {
        if text.is_empty() || text.contains('\0') { Err("not a path: write that of a file or directory".to_owned()) } else { Ok(text.into()) }
    };
    Lfn => Self, "path", |text| reported(Self::parse(text));
    PathPattern => Self, "pattern of paths", |text| reported(Self::parse(text));
    PathTemplate => Self, "path", |text| reported(Self::parse(text));
    BlockSize => Self, "size", parse_block_size;
    SocketAddr => Self, "`ADDRESS:PORT`", |text| text.trim().parse().map_err(|_| {
        format!("`{text}` is not an address to listen on: write ADDRESS:PORT with an IP address, such as \"0.0.0.0:1094\" or \"[::]:1094\"")
    });
    RunAs => Self, "user name or `UID:GID`", Self::parse;
    Group => u32, "group name or number", parse_group;
    DnsName => String, "name", |text| {
        let is_bad = text.is_empty() || text.len() > NAME_LEN_MAX || text.contains(|c: char| c.is_whitespace() || c.is_control());
        if is_bad { Err(format!("`{}` is not a name: write 1 to {NAME_LEN_MAX} bytes without blanks", text.escape_default())) } else { Ok(text.to_owned()) }
    };
    Ciphers => String, "OpenSSL cipher list", |text| {
        let is_bad = text.is_empty() || text.len() > CIPHERS_LEN_MAX || text.contains(|c: char| !c.is_ascii_graphic());
        if is_bad { Err("not a list of cipher suites: write it as for `openssl ciphers`".to_owned()) } else { Ok(text.to_owned()) }
    };
    Pattern => String, "pattern", |text| {
        let is_good = (1..=PATTERN_LEN_MAX).contains(&text.len());
        if is_good { Ok(text.to_owned()) } else { Err(format!("write 1 to {PATTERN_LEN_MAX} bytes; `*` stands for any run")) }
    };
    Line => String, "text", |text| {
        let is_good = (1..=LINE_LEN_MAX).contains(&text.len()) && !text.contains(char::is_control);
        if is_good { Ok(text.to_owned()) } else { Err(format!("write 1 to {LINE_LEN_MAX} bytes on one line")) }
    };
    AddressPattern => String, "address pattern", |text| {
        let is_of_address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b'.' | b':' | b'*');
        let is_good = (1..=LINE_LEN_MAX).contains(&text.len()) && text.bytes().all(is_of_address);
        if is_good { return Ok(text.to_owned()) }
        let text = text.escape_default();
        Err(format!("`{text}` is not an address: write one, with `*` for any run of characters, such as \"192.0.2.*\""))
    };
    forebay_types::AddressPattern => Self, "address pattern or network", |text| reported(text.parse());
    Organization => String, "name", |text| {
        let is_bad = text.is_empty() || text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control());
        if is_bad { Err(format!("`{}` is not an organization: write its name, such as \"cms\"", text.escape_default())) } else { Ok(text.to_owned()) }
    };
    CgiPattern => Self, "`KEY=VALUE` or `KEY`", |text| {
        let pattern = if text.len() <= PATTERN_LEN_MAX { Self::parse(text) } else { None };
        pattern.ok_or_else(|| format!("`{}` is not a pair of opaque data: write \"key=value\", or \"key\" for any value", text.escape_default()))
    };
    FillPolicy => Self, "`on-demand-blocks`, `while-open`, `to-end`", |text| reported(text.parse());
    StructureUse => Self, "`learn-and-remember`, `learn`, `off`", |text| reported(text.parse());
    ChecksumAlgorithm => Self, "`adler32`, `crc32c`, `md5`", |text| reported(Self::parse(text));
    Collector => String, "`HOST:PORT`", |text| {
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse::<u16>().ok());
        let is_good = port.is_some_and(|port| port > 0) && text.len() <= NAME_LEN_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
        if is_good { return Ok(text.to_owned()) }
        Err(format!("`{}` is not a collector: write HOST:PORT, such as \"collector.example.org:9930\"", text.escape_default()))
    };
    MemberPort => Endpoint, "`HOST:PORT`", |text| {
        let has_port = text.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        let member = if has_port && text.len() <= NAME_LEN_MAX { text.parse().ok() } else { None };
        member.ok_or_else(|| format!("`{}` is not a server: write HOST:PORT, such as \"redirector.example.org:1213\"", text.escape_default()))
    };
    Sample => Self, "`N/M`", |text| {
        Self::parse(text).ok_or_else(|| format!("`{text}` is not a fraction of all opens: write 1/1, or 1/10 for one in ten"))
    };
    OriginUrl => Self, "`root://HOST:PORT` or `https://HOST:PORT`", |text| parse_origin_url(text);
    OriginPattern => String, "`HOST`, `HOST:PORT` or `HOST:*`, after `https://` for HTTP", |text| reported(AllowList::parse(&[text])).map(|_| text.to_owned());
    Filler => Endpoint, "`root://HOST:PORT`", |text| match parse_origin_url(text)? {
        OriginUrl::Root { tls: TlsUse::Always, .. } => Err("write root://: a redirect cannot change the encryption of a client's connection".to_owned()),
        OriginUrl::Root { server, .. } => Ok(server),
        OriginUrl::Http(_) => Err("write root://: a redirect cannot change the protocol of a client".to_owned()),
    };
    Mapping => (PathBuf, PathBuf), "`DIRECTORY=PATH`", parse_mapping;
    Region => (String, String), "`NAME=HOST`", parse_region;
    SearchUrl => OriginId, "`https://HOST:PORT`", |text| match parse_origin_url(text) {
        Ok(OriginUrl::Http(server)) => Ok(server),
        _ => Err(format!("`{}` is not a server: write https://HOST:PORT, or http:// without encryption", text.escape_default())),
    };
    IndexName => String, "name", |text| {
        let is_of_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_' | b'.');
        let is_good = (1..=INDEX_NAME_LEN_MAX).contains(&text.len()) && text.bytes().all(is_of_name) && text.starts_with(|c: char| c.is_ascii_lowercase());
        if is_good { return Ok(text.to_owned()) }
        Err(format!("`{}` is not a name of an index: write lower-case letters, digits and `-_.`, at most {INDEX_NAME_LEN_MAX}, a letter first", text.escape_default()))
    };
    LogFilter => String, "filter", |text| reported(forebay_telemetry::check_log_filter(text)).map(|()| text.to_owned());
    IssuerUrl => String, "URL", |text| {
        let is_bad = text.len() > LINE_LEN_MAX || text.contains(char::is_whitespace);
        if is_bad { Err("not an issuer: write its URL, which begins with https://".to_owned()) } else { Ok(text.to_owned()) }
    };
}

fn reported<T, E: Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn parse_block_size(text: &str) -> Result<BlockSize, String> {
    let size: ByteSize = reported(text.parse::<ByteSize>() as Result<_, ByteSizeError>)?;
    BlockSize::new(size.0)
        .map_err(|_| format!("`{text}` is not a block size: write a multiple of 4KiB from 4KiB to 512MiB"))
}

fn parse_region(text: &str) -> Result<(String, String), String> {
    let is_word = |word: &str| !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control());
    match text.split_once('=') {
        Some((name, host)) if text.len() <= NAME_LEN_MAX && is_word(name) && is_word(host) => {
            Ok((name.to_owned(), host.to_owned()))
        }
        _ => Err(format!("`{}` is not a region: write NAME=HOST, such as \"EU=*.cern.ch\"", text.escape_default())),
    }
}

/// `DIRECTORY=PATH`, both absolute.
fn parse_mapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '\0', '\n']);
    match text.split_once('=') {
        Some((here, there)) if is_path(here) && is_path(there) => Ok((here.into(), there.into())),
        _ => Err(format!(
            "`{}` is not a mapping: write DIRECTORY=PATH, such as \"/srv/cache=/mnt/cache\"",
            text.escape_default()
        )),
    }
}
