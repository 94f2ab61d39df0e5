//! How many reads a disk is to have at a time, learned from its rates.
//!
//! Reads beyond what a disk works on at once only wait in it, where they delay writes and cannot be given up. How many that is depends on
//! the device: a rotating disk gains little from more than some reads that it can order, a flash disk much up to the number of its
//! channels, a file system of the network up to that of its servers. The system does not report it (virtual disks count as rotating), so
//! twice and half as many reads are tried from time to time.

use std::time::Duration;

/// The reads of a disk at a time: the largest number that still brings [`GAIN_MIN`] against half of it.
#[derive(Clone, Debug)]
pub(crate) struct DiskDepth {
    depth: usize,
    least: usize,
    most: usize,
    /// The trial under way.
    trial: Option<Trial>,
    /// Whether the next trial is one of more reads.
    is_next_more: bool,
    /// Samples between two trials, and those that have passed.
    interval: u32,
    passed: u32,
}

/// A number of reads that is tried.
#[derive(Clone, Copy, Debug)]
struct Trial {
    /// The number before, and its rate.
    depth: usize,
    rate: f64,
    /// Whether the reads of the number before are done.
    has_begun: bool,
}

/// Work of a disk in some time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The work of the reads that have ended, in any unit.
    pub(crate) work: u64,
    pub(crate) time: Duration,
    /// Whether other reads waited for their turn: else the number says nothing.
    pub(crate) is_crowded: bool,
}

/// Rate by which a number of reads must exceed that of half of them.
const GAIN_MIN: f64 = 1.2;

/// Most samples between two trials. Each trial costs two samples at a rate that may be lower.
const INTERVAL_MAX: u32 = 128;

impl DiskDepth {
    /// Begins with `depth`, and stays between `least` and `most`.
    pub(crate) fn new(depth: usize, least: usize, most: usize) -> Self {
        let most = most.max(least);
        let depth = depth.clamp(least, most);
        // Less first: what is too much delays others.
        Self { depth, least, most, trial: None, is_next_more: false, interval: 1, passed: 0 }
    }

    /// Reads at a time from now on.
    pub(crate) const fn depth(&self) -> usize {
        self.depth
    }

    /// Takes note of a sample.
    pub(crate) fn handle_sample(&mut self, sample: Sample) {
        if !sample.is_crowded {
            // Fewer reads came than may be under way.
            self.give_up_trial();
            return;
        }
        let rate = rate_of(sample);
        match &mut self.trial {
            None => {
                self.passed += 1;
                if self.passed >= self.interval {
                    self.begin_trial(rate);
                }
            }
            Some(trial) if !trial.has_begun => trial.has_begun = true,
            Some(trial) => {
                let before = *trial;
                self.end_trial(before, rate);
            }
        }
    }

    fn begin_trial(&mut self, rate: f64) {
        let more = (self.depth * 2).min(self.most);
        let less = (self.depth / 2).max(self.least);
        let wanted = if self.is_next_more { [more, less] } else { [less, more] };
        let before = self.depth;
        let Some(tried) = wanted.into_iter().find(|tried| *tried != before) else { return };
        self.passed = 0;
        self.trial = Some(Trial { depth: before, rate, has_begun: false });
        self.depth = tried;
    }

    fn end_trial(&mut self, before: Trial, rate: f64) {
        self.trial = None;
        let is_more = self.depth > before.depth;
        let is_better = if is_more { rate >= before.rate * GAIN_MIN } else { rate * GAIN_MIN > before.rate };
        if is_better {
            // The next step in the same direction may be as good.
            (self.is_next_more, self.interval) = (is_more, 1);
        } else {
            self.depth = before.depth;
            self.is_next_more = !is_more;
            self.interval = (self.interval * 2).min(INTERVAL_MAX);
        }
    }

    fn give_up_trial(&mut self) {
        if let Some(trial) = self.trial.take() {
            self.depth = trial.depth;
        }
    }
}

fn rate_of(Sample { work, time, .. }: Sample) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a rate to a few percent")]
    let work = work as f64;
    work / time.as_secs_f64().max(1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk: reads per second by the reads that it has at a time.
    type Rates = fn(f64) -> f64;

    /// 7200 revolutions a minute: half a turn, and a seek over a distance that is the shorter the more reads there are to choose from.
    fn rotating(depth: f64) -> f64 {
        1.0 / (0.004 + 0.008 * (2.0 / (depth + 1.0)).sqrt())
    }

    /// Eight channels, 100 µs for each read.
    fn flash(depth: f64) -> f64 {
        depth.min(8.0) / 100e-6
    }

    /// 256 reads at a time, 80 µs each.
    fn nvme(depth: f64) -> f64 {
        depth.min(256.0) / 80e-6
    }

    /// A round trip of 5 ms to any number of servers.
    fn network(depth: f64) -> f64 {
        depth / 0.005
    }

    /// Runs `rounds` samples, each with a deviation of up to `noise`; the depths.
    fn run(depth: &mut DiskDepth, rates: Rates, rounds: u32, noise: f64) -> Vec<usize> {
        let mut dice: u64 = 1;
        let sample = |_| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            #[expect(clippy::cast_precision_loss, reason = "a part of one")]
            let deviation = 1.0 + noise * ((dice >> 40) as f64 / f64::from(1 << 23) - 1.0);
            let at = f64::from(u32::try_from(depth.depth()).unwrap());
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of reads")]
            let work = (rates(at) * deviation * 100.0) as u64;
            depth.handle_sample(Sample { work, time: Duration::from_secs(100), is_crowded: true });
            depth.depth()
        };
        (0..rounds).map(sample).collect()
    }

    /// The depth that a disk has most of the time after it was learned.
    fn learned(depth: &mut DiskDepth, rates: Rates, noise: f64) -> usize {
        run(depth, rates, 100, noise);
        let mut depths = run(depth, rates, 400, noise);
        depths.sort_unstable();
        depths[depths.len() / 2]
    }

    #[test]
    fn each_kind_of_disk_gets_what_it_can_use() {
        for noise in [0.0, 0.05] {
            for start in [16, 128, 512] {
                for (rates, least, most) in
                    [(rotating as Rates, 4, 8), (flash, 8, 8), (nvme, 256, 256), (network, 512, 512)]
                {
                    let mut depth = DiskDepth::new(start, 4, 512);
                    let learned = learned(&mut depth, rates, noise);
                    assert!((least..=most).contains(&learned), "{start} {noise}: {learned}");
                }
            }
        }
    }

    #[test]
    fn what_is_learned_is_rarely_tried_again() {
        let mut depth = DiskDepth::new(128, 4, 512);
        run(&mut depth, flash, 1000, 0.0);
        let trials = run(&mut depth, flash, 1000, 0.0).into_iter().filter(|depth| *depth != 8).count();
        assert!((1..=40).contains(&trials), "{trials}");
    }

    #[test]
    fn a_disk_that_changes_is_learned_again() {
        let mut depth = DiskDepth::new(128, 4, 512);
        assert_eq!(learned(&mut depth, nvme, 0.0), 256);
        run(&mut depth, flash, 1000, 0.0);
        assert_eq!(learned(&mut depth, flash, 0.0), 8);
    }

    #[test]
    fn few_readers_teach_nothing() {
        let mut depth = DiskDepth::new(128, 4, 512);
        let quiet = Sample { work: 1, time: Duration::from_secs(1), is_crowded: false };
        (0..1000).for_each(|_| depth.handle_sample(quiet));
        assert_eq!(depth.depth(), 128);
        // A trial that the readers leave ends without a result.
        depth.handle_sample(Sample { is_crowded: true, ..quiet });
        assert_eq!(depth.depth(), 64);
        depth.handle_sample(quiet);
        assert_eq!(depth.depth(), 128);
    }

    #[test]
    fn bounds_are_kept() {
        let mut depth = DiskDepth::new(1000, 16, 32);
        let depths = run(&mut depth, network, 100, 0.0);
        assert!(depths.iter().all(|depth| (16..=32).contains(depth)) && depths.contains(&32));
        let mut fixed = DiskDepth::new(7, 16, 1);
        assert!(run(&mut fixed, flash, 100, 0.0).iter().all(|depth| *depth == 16));
    }
}
