//! `forebay authz explain`: what the grants of a configuration say to somebody, and why.

use anyhow::{Context as _, bail};
use forebay_auth::{Explanation, Fqan, Identity, Method, Right, UnixTime};
use forebay_config::Settings;
use forebay_types::Lfn;
use std::{
    io::{self, Write},
    path::PathBuf,
};

/// Tell what the grants of a configuration say
#[derive(Debug, clap::Args)]
pub(crate) struct AuthzArgs {
    #[command(subcommand)]
    command: AuthzCommand,
}

#[derive(Debug, clap::Subcommand)]
enum AuthzCommand {
    Explain(ExplainArgs),
}

/// Tell whether somebody may do something with a path, and which grant decides
#[derive(Debug, clap::Args)]
struct ExplainArgs {
    /// The configuration file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The path; files of origins that clients name are /root:/HOST:PORT/path
    #[arg(long)]
    path: String,
    /// What is to be done: read, list, stat or admin
    #[arg(long, default_value = "read", value_parser = parse_right)]
    right: Right,
    /// How the client proves who it is: gsi, tls, token, sss, unix, host or none
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
    /// Attribute of an organization, such as /atlas/Role=production; any number of them, the primary one first
    #[arg(long = "attribute", value_name = "FQAN", value_parser = Fqan::parse)]
    attributes: Vec<Fqan>,
    /// Group as a token or keytab names it; any number of them
    #[arg(long = "group")]
    groups: Vec<String>,
    /// Name or address of the client's host
    #[arg(long, default_value = "localhost")]
    host: String,
}

fn parse_right(name: &str) -> Result<Right, String> {
    Right::from_name(name).ok_or_else(|| format!("write one of {}", Right::ALL.map(Right::as_str).join(", ")))
}

fn parse_method(name: &str) -> Result<Method, String> {
    Method::from_name(name).ok_or_else(|| format!("write one of {}", Method::ALL.map(Method::as_str).join(", ")))
}

/// Explains a decision. Succeeds when it is allowed.
pub(crate) fn run(args: &AuthzArgs) -> anyhow::Result<()> {
    let AuthzCommand::Explain(args) = &args.command;
    let settings = Settings::read(&args.config)?;
    let path = Lfn::parse(&args.path).with_context(|| format!("`{}` is no path", args.path))?;
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
        writeln!(out, "decision  allowed: there is no [[grant]], so everybody may do everything")?;
        return Ok(());
    };
    let now = UnixTime(forebay_net::clock::now_unix());
    let explanation = grants.explain(&identity, &path, args.right, now);
    print(&mut out, &explanation, args.right, &path)?;
    if !explanation.decision.is_allowed {
        bail!("{} {path} is denied", args.right);
    }
    Ok(())
}

fn print(out: &mut impl Write, explanation: &Explanation<'_>, right: Right, path: &Lfn) -> io::Result<()> {
    writeln!(out, "decision  {right} {path}: {}", explanation.decision)?;
    for (rule, verdict) in &explanation.verdicts {
        writeln!(out, "  {rule}: {verdict}")?;
    }
    Ok(())
}
