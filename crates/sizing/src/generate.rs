//! Access records as a region's cache sees them, drawn by chance.
//!
//! Datasets appear at a constant rate. They have a data tier, a number of files and a popularity, which falls over weeks or months. *Analysis*
//! tasks of a user read a dataset, popular ones more often, and repeat it in the days after; *campaigns* read all files of a dataset with
//! large files once. The parameters are fitted to what was published of caches; see [`Profile`].

use crate::chance::Chance;

forebay_types::named_enum! {
    /// Which publication the records resemble.
    #[derive(Default)]
    pub enum Profile {
        /// The cache of Southern California from June 2020 to December 2023 (CHEP 2024): 23 000 accesses a day with 1.2 GB each; 2 PB
        /// with LRU save 66 % of the bytes.
        #[default]
        Region = "region",
        /// The same cache in a period with many campaigns (arXiv 2307.11069): 67.6 % of the accesses and 35.4 % of the bytes are hits.
        Campaigns = "campaigns",
    }
}

/// The parameters of generated records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GenerateOptions {
    pub profile: Profile,
    pub seed: u64,
    /// Time of the first access, in seconds of the Unix epoch.
    pub start: i64,
    pub days: u32,
    /// Size relative to the published cache: of the rate of accesses, of the number of datasets, and with them of the cache
    /// that has the published hit ratio.
    pub scale: f64,
}

/// Days of generated records at most: longer than any cache lives.
pub const GENERATE_DAYS_MAX: u32 = 3650;

/// The largest scale: more accesses in two years than a simulation holds.
pub const GENERATE_SCALE_MAX: f64 = 20.0;

/// An access that was drawn, with its names as text.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Generated {
    pub at_ms: i64,
    pub path: String,
    pub size: u64,
    pub read: u64,
    pub user: String,
}

/// Draws the records, in the order of tasks: those of a task are in the order of time, tasks overlap.
pub fn generate(options: GenerateOptions, mut visit: impl FnMut(Generated)) {
    Generator::new(options).run(&mut visit);
}

struct Law {
    /// Part of the accesses that belongs to campaigns.
    campaigns: f64,
    /// Bytes that an access of an analysis reads, the median; those of a campaign.
    analysis_read: f64,
    campaign_read: f64,
    /// Days after which a dataset has lost two thirds of its popularity.
    decay_days: f64,
    /// Probability that a task of a user repeats the one before.
    repeats: f64,
    /// New datasets a day.
    datasets: f64,
}

impl Profile {
    const fn law(self) -> Law {
        match self {
            Self::Region => Law {
                campaigns: 0.05,
                analysis_read: 0.7e9,
                campaign_read: 2.0e9,
                decay_days: 200.0,
                repeats: 0.4,
                datasets: 64.0,
            },
            Self::Campaigns => Law {
                campaigns: 0.27,
                analysis_read: 0.4e9,
                campaign_read: 1.9e9,
                decay_days: 60.0,
                repeats: 0.5,
                datasets: 15.0,
            },
        }
    }

    /// Size in bytes of the cache that the profile is about, at scale 1.
    #[must_use]
    pub const fn cache_bytes(self) -> u64 {
        2_000_000_000_000_000
    }
}

/// Accesses a day at scale 1.
const RATE: f64 = 23_000.0;

/// Spread of the sizes of files within a dataset, of datasets, of the number of files of datasets, and of their popularity.
const SIZE_SIGMA: f64 = 0.7;
const DATASET_SIGMA: f64 = 0.5;
const FILES_SIGMA: f64 = 1.0;
const POPULARITY_SIGMA: f64 = 1.6;

/// Files of a dataset: the median and the maximum.
const FILES_MEDIAN: f64 = 60.0;
const FILES_MAX: f64 = 2000.0;

/// Users for a cache of the published size.
const USERS: f64 = 250.0;

const USERS_MIN: usize = 3;

/// Time before the first record in which datasets have appeared, in units of their decay.
const PAST: f64 = 5.0;

/// Part of each file that an analysis reads, that some of them read, and a campaign.
const ANALYSIS_PART: f64 = 0.3;
const WIDE_PART: f64 = 0.6;
const CAMPAIGN_PART: f64 = 0.95;

/// Part of the analyses that read more of the files.
const WIDE_TASKS: f64 = 0.1;

/// Mean time that an access is late, in days.
const JOB_DAYS: f64 = 0.01;

/// Tiers of datasets that analyses read.
const TIERS: [&str; 5] = ["MINIAODSIM", "NANOAODSIM", "MINIAOD", "NANOAOD", "USER"];

const DAY_MS: f64 = 86_400_000.0;

struct Dataset {
    number: usize,
    tier: &'static str,
    files: u64,
    /// Seeds of the sizes of its files.
    seed: u64,
    size: f64,
}

struct Generator {
    law: Law,
    options: GenerateOptions,
    chance: Chance,
    /// Datasets of analyses, in the order in which they appeared.
    datasets: Vec<Dataset>,
    /// Sums of their popularities, as of the same day: the popularity of all falls alike, so their relation stays.
    popularities: Vec<f64>,
    next_dataset: f64,
    campaigns: usize,
    /// The last dataset of each user.
    last: Vec<Option<usize>>,
}

impl Generator {
    fn new(options: GenerateOptions) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive number")]
        let users = (USERS * options.scale.sqrt()).ceil() as usize;
        let law = options.profile.law();
        // At the start there are the datasets of the months before.
        let next_dataset = -PAST * law.decay_days;
        let (datasets, popularities) = (Vec::new(), Vec::new());
        let (chance, last) = (Chance::new(options.seed), vec![None; users.max(USERS_MIN)]);
        Self { law, options, chance, datasets, popularities, next_dataset, campaigns: 0, last }
    }

    fn run(&mut self, visit: &mut dyn FnMut(Generated)) {
        let rate = RATE * self.options.scale;
        let end = f64::from(self.options.days);
        let mut day = 0.0;
        while day < end {
            self.add_datasets(day);
            let is_campaign = self.chance.happens(self.law.campaigns);
            // Datasets of both kinds have the same number of files: accesses divide as tasks do.
            let count = if is_campaign { self.campaign(day, visit) } else { self.analysis(day, visit) };
            day += self.chance.exponential(count as f64 / rate);
        }
    }

    /// Adds the datasets that have appeared until `day`.
    fn add_datasets(&mut self, day: f64) {
        while self.next_dataset <= day {
            let tier = TIERS.get(usize::try_from(self.chance.below(TIERS.len() as u64)).unwrap_or(0)).copied();
            let dataset = self.dataset(self.datasets.len(), tier.unwrap_or("USER"), self.law.analysis_read);
            let popularity =
                self.chance.log_normal(1.0, POPULARITY_SIGMA) * (self.next_dataset / self.law.decay_days).exp();
            self.popularities.push(self.popularities.last().copied().unwrap_or(0.0) + popularity);
            self.datasets.push(dataset);
            self.next_dataset += self.chance.exponential(1.0 / (self.law.datasets * self.options.scale));
        }
    }

    fn dataset(&mut self, number: usize, tier: &'static str, size: f64) -> Dataset {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded and positive")]
        let files = self.chance.log_normal(FILES_MEDIAN, FILES_SIGMA).clamp(1.0, FILES_MAX) as u64;
        Dataset { number, tier, files, seed: self.chance.number(), size: self.chance.log_normal(size, DATASET_SIGMA) }
    }

    /// Reads a dataset that has just appeared once, file by file.
    fn campaign(&mut self, day: f64, visit: &mut dyn FnMut(Generated)) -> u64 {
        let tier = if self.chance.happens(0.5) { "AODSIM" } else { "AOD" };
        self.campaigns += 1;
        let dataset = self.dataset(self.campaigns, tier, self.law.campaign_read);
        let days = self.chance.log_normal(2.0, 0.5);
        let task = Task { user: "campaign".to_owned(), day, days, part: CAMPAIGN_PART };
        task.read(&dataset, self.options, &mut self.chance, visit);
        dataset.files
    }

    /// Reads a dataset for a user: the last one again, or another one by its popularity.
    fn analysis(&mut self, day: f64, visit: &mut dyn FnMut(Generated)) -> u64 {
        let user = usize::try_from(self.chance.below(self.last.len() as u64)).unwrap_or(0);
        let again = self.chance.happens(self.law.repeats);
        let last = if again { self.last.get(user).copied().flatten() } else { None };
        let number = last.unwrap_or_else(|| {
            let drawn = self.chance.fraction() * self.popularities.last().copied().unwrap_or(0.0);
            self.popularities.partition_point(|sum| *sum <= drawn)
        });
        if let Some(last) = self.last.get_mut(user) {
            *last = Some(number);
        }
        let Some(dataset) = self.datasets.get(number) else { return 1 };
        // Jobs of most tasks read the same branches of a dataset, those of a few read more.
        let part = if self.chance.happens(WIDE_TASKS) { WIDE_PART } else { ANALYSIS_PART };
        let task = Task { user: format!("user{user:03}"), day, days: self.chance.log_normal(0.3, 0.8), part };
        task.read(dataset, self.options, &mut self.chance, visit);
        dataset.files
    }
}

/// The jobs of a user that read a dataset at the same time.
struct Task {
    user: String,
    /// Its begin and its length.
    day: f64,
    days: f64,
    /// The part of each file that is read.
    part: f64,
}

impl Task {
    fn read(&self, dataset: &Dataset, options: GenerateOptions, chance: &mut Chance, visit: &mut dyn FnMut(Generated)) {
        let mut sizes = Chance::new(dataset.seed);
        let whole_part = if self.part == CAMPAIGN_PART { CAMPAIGN_PART } else { ANALYSIS_PART };
        for file in 0..dataset.files {
            let size = sizes.log_normal(dataset.size, SIZE_SIGMA) / whole_part;
            let at = self.day + self.days * file as f64 / dataset.files as f64 + chance.exponential(JOB_DAYS);
            if at >= f64::from(options.days) {
                continue;
            }
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some gigabytes, some years")]
            let (size, read, after_ms) = (size as u64, (size * self.part) as u64, (at * DAY_MS) as i64);
            let at_ms = options.start.saturating_mul(1000).saturating_add(after_ms);
            visit(Generated { at_ms, path: dataset.path(file), size, read, user: self.user.clone() });
        }
    }
}

impl Dataset {
    fn path(&self, file: u64) -> String {
        let Self { number, tier, .. } = self;
        match *tier {
            "USER" => format!("/store/user/user{:03}/ntuples{number}/{file}.root", number % 97),
            "AOD" | "MINIAOD" | "NANOAOD" => format!("/store/data/Run2023/Primary{number}/{tier}/v1/0000/{file}.root"),
            _ => format!("/store/mc/Run3Summer22/Process{number}/{tier}/v1/0000/{file}.root"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, Accesses, Admission, Cell, Ratios, Replays, Scenario, Window};
    use forebay_cache::{CacheKey, Policy};

    const SCALE: f64 = 0.02;

    fn accesses(profile: Profile, seed: u64, days: u32) -> Accesses {
        let mut accesses = Accesses::default();
        generate(GenerateOptions { profile, seed, start: 1_700_000_000, days, scale: SCALE }, |generated| {
            let Generated { at_ms, path, size, read, user } = generated;
            let access = Access { at_ms, file: 0, user: 0, read, saved: Access::UNKNOWN };
            accesses.add(CacheKey::from_text(&path).unwrap(), Some(size), &user, access).unwrap();
        });
        accesses.sort();
        accesses
    }

    /// The ratios by files and by bytes in the mean of some seeds: those of one seed differ by some points.
    fn ratios(profile: Profile) -> (f64, f64) {
        let size = profile.cache_bytes() / 50;
        let of_seed = |seed| {
            let accesses = accesses(profile, seed, 700);
            let all = Admission::by_rules(&accesses, &Scenario::default());
            let outcome =
                Replays::new(&accesses, &Scenario::default()).replay(&all, Cell { policy: Policy::Lru, size });
            let window = Window::after_filling(std::slice::from_ref(&outcome), accesses.span_ms().unwrap());
            assert!(window.is_warm(&outcome));
            let ratios = Ratios::of(&outcome.periods, window);
            (ratios.by_files.value, ratios.by_bytes.value)
        };
        let seeds: Vec<(f64, f64)> = (1..=3).map(of_seed).collect();
        (seeds.iter().map(|pair| pair.0).sum::<f64>() / 3.0, seeds.iter().map(|pair| pair.1).sum::<f64>() / 3.0)
    }

    #[test]
    fn the_profiles_have_the_published_hit_ratios() {
        let (_, bytes) = ratios(Profile::Region);
        assert!((bytes - 0.66).abs() < 0.06, "{bytes}");
        let (files, bytes) = ratios(Profile::Campaigns);
        assert!((files - 0.676).abs() < 0.06, "{files}");
        assert!((bytes - 0.354).abs() < 0.06, "{bytes}");
    }

    #[test]
    fn rate_mean_size_and_repetition_are_as_asked() {
        let first = accesses(Profile::Region, 3, 200);
        let per_day = first.list().len() as f64 / 200.0;
        assert!((per_day / (RATE * SCALE) - 1.0).abs() < 0.15, "{per_day}");
        let mean = first.list().iter().map(|access| access.read).sum::<u64>() as f64 / first.list().len() as f64;
        assert!((0.6e9..2.5e9).contains(&mean), "{mean}");
        assert!(first.list().iter().all(|access| access.read <= first.files()[access.file as usize].size));
        let days = first.span_ms().map(|(first, last)| (last - first) as f64 / DAY_MS).unwrap();
        assert!((199.0..=200.0).contains(&days), "{days}");
        assert_eq!(accesses(Profile::Region, 3, 200).list(), first.list());
        assert_ne!(accesses(Profile::Region, 4, 200).list(), first.list());
    }
}
