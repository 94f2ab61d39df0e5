//! `forebay authz explain`: shows the decision of the grants for a client.

use anyhow::{Context as _, bail};
use forebay_auth::{Fqan, Identity, Method, Right, UnixTime};
use forebay_config::{DEFAULT_FILE, Settings};
use forebay_types::Lfn;
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Evaluate the grants of a configuration
#[derive(Debug, clap::Args)]
pub(crate) struct AuthzArgs {
    #[command(subcommand)]
    command: AuthzCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AuthzCommand {
    Explain(ExplainArgs),
}

/// Show whether a client is allowed to access a path, and which grant decides
#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE", default_value = DEFAULT_FILE)]
    config: PathBuf,
    /// The path; forwarded files are /root:/HOST:PORT/path
    #[arg(long)]
    path: String,
    /// Requested right: read, list, stat or admin
    #[arg(long, default_value = "read", value_parser = parse_right)]
    right: Right,
    /// Authentication method: gsi, tls, token, access-key, sss, unix, host or none
    #[arg(long, default_value = "none", value_parser = parse_method)]
    method: Method,
    /// Local name of the user
    #[arg(long)]
    user: Option<String>,
    /// Distinguished name of the certificate, or `sub` of the token
    #[arg(long)]
    subject: Option<String>,
    /// Distinguished name of the certification authority, or `iss` of the token
    #[arg(long)]
    issuer: Option<String>,
    /// Attribute of an organization, such as /atlas/Role=production; repeatable, the primary one first
    #[arg(long = "attribute", value_name = "FQAN", value_parser = Fqan::parse)]
    attributes: Vec<Fqan>,
    /// Group in a token or keytab; repeatable
    #[arg(long = "group")]
    groups: Vec<String>,
    /// Name or address of the client's host
    #[arg(long, default_value = "localhost")]
    host: String,
}

fn parse_right(name: &str) -> Result<Right, String> {
    Right::from_name(name).ok_or_else(|| format!("possible values: {}", Right::ALL.map(Right::as_str).join(", ")))
}

fn parse_method(name: &str) -> Result<Method, String> {
    Method::from_name(name).ok_or_else(|| format!("possible values: {}", Method::ALL.map(Method::as_str).join(", ")))
}

fn explain_without_grants(right: Right, out: &mut impl Write) -> anyhow::Result<()> {
    if right == Right::Admin {
        writeln!(out, "decision  denied: `admin` needs a [[grant]] that names it")?;
        bail!("{right} is denied");
    }
    writeln!(out, "decision  allowed: without any [[grant]] all clients may read, list and stat")?;
    Ok(())
}

/// Explains a decision. Fails if access is denied.
pub(crate) fn run(args: &AuthzArgs) -> anyhow::Result<()> {
    let AuthzCommand::Explain(args) = &args.command;
    let settings = Settings::read(&args.config)?;
    let path = Lfn::parse(&args.path).with_context(|| format!("invalid path `{}`", args.path))?;
    let identity = Identity {
        user: args.user.clone(),
        subject: args.subject.clone(),
        issuer: args.issuer.clone(),
        attributes: args.attributes.clone(),
        groups: args.groups.clone(),
        ..Identity::of(args.method, &args.host)
    };
    let mut out = io::stdout().lock();
    writeln!(out, "identity  {identity}")?;
    let Some(grants) = &settings.config.security.grants else {
        return explain_without_grants(args.right, &mut out);
    };
    let now = UnixTime(forebay_net::clock::now_unix());
    let explanation = grants.explain(&identity, &path, args.right, now);
    writeln!(out, "decision  {} {path}: {}", args.right, explanation.decision)?;
    for (rule, verdict) in &explanation.verdicts {
        writeln!(out, "  {rule}: {verdict}")?;
    }
    if !explanation.decision.is_allowed {
        bail!("{} {path} is denied", args.right);
    }
    Ok(())
}
