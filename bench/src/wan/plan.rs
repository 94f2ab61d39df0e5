//! The plan of a lab, as a file or the command line describes it.

use super::host::Tuning;
use super::preset::{PathShape, Preset};
use anyhow::{Context as _, Result, bail, ensure};
use forebay_types::ByteSize;
use serde::Deserialize;

/// Most paths of one lab; each has two threads.
const PATHS_MAX: usize = 64;

/// Limits of what paths may be: beyond them is a slip of the pen.
const RTT_MS_MAX: f64 = 2_000.0;
const MBIT_MAX: f64 = 100_000.0;
const BUFFER_BYTES_MAX: u64 = 1 << 32;
const TCP_BUFFER_BYTES_MAX: u64 = 1 << 30;
const HOST_NAME_LEN_MAX: usize = 64;

/// A lab: hosts, and the paths between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Holds at least one.
    pub paths: Vec<PathPlan>,
    /// How all hosts are tuned.
    pub tuning: Tuning,
    /// The same seed loses and delays the same packets.
    pub seed: u64,
}

/// A path between two hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct PathPlan {
    /// Names of its hosts; a host is there as soon as a path has its name.
    pub ends: [String; 2],
    /// The preset that it follows.
    pub preset: String,
    /// The preset's properties after changes.
    pub shape: PathShape,
}

/// A lab as a file says it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    tcp_buffer: Option<String>,
    congestion_control: Option<String>,
    seed: Option<u64>,
    path: Vec<FilePath>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FilePath {
    ends: [String; 2],
    preset: String,
    rtt_ms: Option<f64>,
    jitter_ms: Option<f64>,
    mbit: Option<f64>,
    loss: Option<f64>,
    buffer: Option<String>,
}

/// The differences from the preset.
#[derive(Debug, Default)]
struct Changes {
    rtt_ms: Option<f64>,
    jitter_ms: Option<f64>,
    mbit: Option<f64>,
    loss: Option<f64>,
    buffer: Option<ByteSize>,
}

const TCP_BUFFER_BYTES: u64 = 64 << 20;
const CONGESTION_CONTROL: &str = "cubic";
const SEED: u64 = 1;

impl Tuning {
    /// As hosts are that are meant for long paths.
    #[must_use]
    pub fn for_long_paths() -> Self {
        Self { tcp_buffer_bytes: TCP_BUFFER_BYTES, congestion_control: CONGESTION_CONTROL.to_owned() }
    }
}

impl Plan {
    /// A lab as a file in TOML says it.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn from_toml(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let paths = file.path.into_iter().map(|path| {
            let FilePath { ends, preset, rtt_ms, jitter_ms, mbit, loss, buffer } = path;
            let buffer = buffer.as_deref().map(size).transpose()?;
            PathPlan::new(ends, &preset, &Changes { rtt_ms, jitter_ms, mbit, loss, buffer })
        });
        let paths = paths.collect::<Result<_>>()?;
        let mut tuning = Tuning::for_long_paths();
        if let Some(text) = &file.tcp_buffer {
            tuning.tcp_buffer_bytes = size(text)?.0;
        }
        if let Some(name) = file.congestion_control {
            tuning.congestion_control = name;
        }
        let plan = Self { paths, tuning, seed: file.seed.unwrap_or(SEED) };
        plan.check()?;
        Ok(plan)
    }

    /// A lab of these paths, with tuned hosts.
    ///
    /// # Errors
    /// When it has no path, too many, or two between the same hosts.
    pub fn of_paths(paths: Vec<PathPlan>) -> Result<Self> {
        let plan = Self { paths, tuning: Tuning::for_long_paths(), seed: SEED };
        plan.check()?;
        Ok(plan)
    }

    /// Names of the hosts, in the order in which paths name them.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let mut hosts = Vec::new();
        for name in self.paths.iter().flat_map(|path| &path.ends) {
            if !hosts.contains(&name.as_str()) {
                hosts.push(name);
            }
        }
        hosts
    }

    fn check(&self) -> Result<()> {
        ensure!((1..=PATHS_MAX).contains(&self.paths.len()), "a lab has 1 to {PATHS_MAX} paths");
        ensure!(
            (4_096..=TCP_BUFFER_BYTES_MAX).contains(&self.tuning.tcp_buffer_bytes),
            "tcp_buffer must be 4 KiB to 1 GiB"
        );
        for (index, PathPlan { ends: [near, far], .. }) in self.paths.iter().enumerate() {
            let is_same = |other: &&PathPlan| other.ends.contains(near) && other.ends.contains(far);
            let before = self.paths.iter().take(index).find(is_same);
            ensure!(before.is_none(), "{near} and {far} have two paths; one is the most");
        }
        Ok(())
    }
}

impl PathPlan {
    fn new(ends: [String; 2], preset: &str, changes: &Changes) -> Result<Self> {
        let [near, far] = &ends;
        ensure!(near != far, "a path from {near} to itself leads nowhere");
        for name in &ends {
            let is_plain = name.chars().all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char));
            ensure!(
                is_plain && (1..=HOST_NAME_LEN_MAX).contains(&name.len()),
                "{name:?} is no name of a host: letters, digits, and -_. make one"
            );
        }
        let Some(preset) = Preset::find(preset) else {
            bail!("{preset:?} is no preset; `forebay-wan presets` lists them")
        };
        Ok(Self { preset: preset.name.to_owned(), shape: changes.apply(preset)?, ends })
    }
}

/// `NEAR:FAR=PRESET`, or `NEAR=PRESET` to a host of the preset's name, in small letters; changes follow, as in `,rtt_ms=20,loss=0.001`.
impl std::str::FromStr for PathPlan {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "a path is HOST[:HOST]=PRESET[,NAME=VALUE...]";
        let mut parts = text.split(',');
        let (ends, preset) = parts.next().and_then(|first| first.split_once('=')).context(form)?;
        let ends = match ends.split_once(':') {
            Some((near, far)) => [near.to_owned(), far.to_owned()],
            None => [ends.to_owned(), preset.to_lowercase()],
        };
        let mut changes = Changes::default();
        for part in parts {
            let (name, value) = part.split_once('=').context(form)?;
            changes.set(name, value).with_context(|| part.to_owned())?;
        }
        Self::new(ends, preset, &changes)
    }
}

impl Changes {
    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "rtt_ms" => self.rtt_ms = Some(value.parse()?),
            "jitter_ms" => self.jitter_ms = Some(value.parse()?),
            "mbit" => self.mbit = Some(value.parse()?),
            "loss" => self.loss = Some(value.parse()?),
            "buffer" => self.buffer = Some(size(value)?),
            _ => bail!("none of rtt_ms, jitter_ms, mbit, loss, buffer"),
        }
        Ok(())
    }

    fn apply(&self, preset: &Preset) -> Result<PathShape> {
        let mut shape = PathShape {
            rtt_ms: self.rtt_ms.unwrap_or(preset.rtt_ms),
            jitter_ms: self.jitter_ms.unwrap_or(0.0),
            mbit: self.mbit.unwrap_or(preset.mbit),
            loss: self.loss.unwrap_or(0.0),
            buffer_bytes: 0,
        };
        ensure!((0.0..=RTT_MS_MAX).contains(&shape.rtt_ms), "rtt_ms must be 0 to {RTT_MS_MAX}");
        ensure!((0.0..=shape.rtt_ms).contains(&shape.jitter_ms), "jitter_ms must be 0 to the round trip");
        ensure!((0.001..=MBIT_MAX).contains(&shape.mbit), "mbit must be 0.001 to {MBIT_MAX}");
        ensure!((0.0..=1.0).contains(&shape.loss), "loss is a share, from 0 to 1");
        shape.buffer_bytes = self.buffer.map_or_else(|| shape.fair_buffer_bytes(), |buffer| buffer.0);
        ensure!(shape.buffer_bytes <= BUFFER_BYTES_MAX, "a buffer has at most 4 GiB");
        Ok(shape)
    }
}

fn size(text: &str) -> Result<ByteSize> {
    text.parse().with_context(|| format!("{text:?} is no size, such as 4MiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_the_command_line_leads_to_a_host_of_the_presets_name() {
        let path: PathPlan = "client=KIT".parse().unwrap();
        assert_eq!(path.ends, ["client", "kit"]);
        assert_eq!(path.shape, Preset::find("KIT").unwrap().shape());
        let path: PathPlan = "a:b=local,rtt_ms=20,jitter_ms=1.5,loss=0.001,buffer=1MiB,mbit=100".parse().unwrap();
        assert_eq!((path.ends, path.preset), (["a".to_owned(), "b".to_owned()], "local".to_owned()));
        let PathShape { rtt_ms, jitter_ms, mbit, loss, buffer_bytes } = path.shape;
        assert_eq!((rtt_ms, jitter_ms, mbit, loss, buffer_bytes), (20.0, 1.5, 100.0, 0.001, 1 << 20));
    }

    #[test]
    fn a_file_says_the_same() {
        let plan = Plan::from_toml(
            "tcp_buffer = '16MiB'\nseed = 7\n\
             [[path]]\nends = ['client', 'cache']\npreset = 'local'\n\
             [[path]]\nends = ['cache', 'origin']\npreset = 'BNL'\nloss = 0.001\n",
        )
        .unwrap();
        assert_eq!(plan.hosts(), ["client", "cache", "origin"]);
        assert_eq!((plan.tuning.tcp_buffer_bytes, plan.seed), (16 << 20, 7));
        assert_eq!(plan.paths[1], "cache:origin=bnl,loss=0.001".parse().unwrap());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (path, why) in [
            ("client", "a path is"),
            ("client=CERN", "no preset"),
            ("a:a=KIT", "leads nowhere"),
            ("a/b:c=KIT", "no name of a host"),
            ("a:=KIT", "no name of a host"),
            ("a=KIT,rtt_ms=NaN", "rtt_ms must"),
            ("a=KIT,rtt_ms=2001", "rtt_ms must"),
            ("a=KIT,jitter_ms=4.1", "jitter_ms must"),
            ("a=KIT,mbit=0", "mbit must"),
            ("a=KIT,loss=1.1", "loss is"),
            ("a=KIT,buffer=5GiB", "at most 4 GiB"),
            ("a=KIT,delay=1", "none of"),
        ] {
            let said = format!("{:#}", path.parse::<PathPlan>().unwrap_err());
            assert!(said.contains(why), "{path}: {said}");
        }
        let twice = vec!["a:b=KIT".parse().unwrap(), "b:a=LRZ".parse().unwrap()];
        assert!(Plan::of_paths(twice).is_err());
        assert!(Plan::of_paths(Vec::new()).is_err());
        assert!(Plan::from_toml("[[path]]\nends=['a','b']\npreset='KIT'\nspeed=1\n").is_err());
    }
}
