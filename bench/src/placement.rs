//! Simulates the placement of many names on the members of a cluster: balance, movement when a member comes or a tenth is lost, and the
//! load of popular files.

use anyhow::{Result, ensure};
use forebay_cache::{Candidate, placement_hash, placement_order};

/// How many names, and on how many members.
#[derive(Debug, clap::Args)]
pub(crate) struct PlacementArgs {
    /// Names to place, of files as experiments name them.
    #[arg(long, default_value_t = 10_000_000)]
    names: u64,
    /// Numbers of members, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "3,6,12,24,48,64")]
    members: Vec<usize>,
    /// The most popular names, which two members share.
    #[arg(long, default_value_t = 1_000)]
    hot: u64,
}

/// The result for one number of members.
#[derive(Debug)]
struct Found {
    names: u64,
    /// Names of each member.
    held: Vec<u64>,
    /// Names of each member after a tenth of the members is lost.
    held_after_loss: Vec<u64>,
    /// Names that change their member when one is added, and those that change it between two old ones.
    moved_to_new: u64,
    moved_between_old: u64,
    /// Names of members that stay, which change their member when a tenth is lost.
    moved_needlessly: u64,
    /// Opens of each member if the name of rank r is opened in proportion to 1 / r; without and with sharing of hot names.
    opens: Vec<f64>,
    opens_shared: Vec<f64>,
}

/// Simulates each number of members, and prints the table.
pub(crate) fn run(args: &PlacementArgs) -> Result<()> {
    ensure!(args.names > 0 && args.members.iter().all(|&members| members > 0), "no names, or no members");
    println!(
        "| members | names: least, most of the mean | moved to a new member (1/(N+1)) | between old ones | lost: a tenth of N | others that moved | then most of the mean | opens: most of the mean | with {} hot names shared |",
        args.hot
    );
    println!("|---:|---|---|---:|---:|---:|---:|---:|---:|");
    for &members in &args.members {
        let found = simulate(args.names, members, args.hot);
        let lost = lost(members);
        let share = |count: u64| 100.0 * count as f64 / found.names as f64;
        println!(
            "| {members} | {:.4}, {:.4} | {:.3} % ({:.3} %) | {} | {lost} | {} | {:.4} | {:.3} | {:.3} |",
            least_of_mean(&found.held),
            most_of_mean(&found.held.iter().map(|&count| count as f64).collect::<Vec<_>>()),
            share(found.moved_to_new),
            100.0 / (members as f64 + 1.0),
            found.moved_between_old,
            found.moved_needlessly,
            most_of_mean(&found.held_after_loss.iter().skip(lost).map(|&count| count as f64).collect::<Vec<_>>()),
            most_of_mean(&found.opens),
            most_of_mean(&found.opens_shared),
        );
    }
    Ok(())
}

/// How many of the members are lost: the first ones.
fn lost(members: usize) -> usize {
    members.div_ceil(10)
}

fn simulate(names: u64, members: usize, hot: u64) -> Found {
    // One more than there are at first.
    let candidates: Vec<Candidate> = (0..=members)
        .map(|number| Candidate {
            seed: placement_hash(format!("cache-{number}.example.org:1094").as_bytes()),
            weight: 1.0,
        })
        .collect();
    let lost = lost(members);
    let mut found = Found {
        names,
        held: vec![0; members],
        held_after_loss: vec![0; members],
        moved_to_new: 0,
        moved_between_old: 0,
        moved_needlessly: 0,
        opens: vec![0.0; members],
        opens_shared: vec![0.0; members],
    };
    for number in 0..names {
        let name = format!("/store/mc/Run3/sample{}/AOD/{}/file-{number}.root", number % 977, number % 89);
        let ranked = placement_order(placement_hash(name.as_bytes()), &candidates);
        let old: Vec<usize> = ranked.iter().copied().filter(|&position| position < members).take(2).collect();
        let (Some(&with_new), Some(&winner)) = (ranked.first(), old.first()) else { continue };
        let left = ranked.iter().copied().find(|&position| position >= lost && position < members);
        count(&mut found.held, winner);
        found.moved_to_new += u64::from(with_new == members);
        found.moved_between_old += u64::from(with_new != members && with_new != winner);
        if let Some(left) = left {
            count(&mut found.held_after_loss, left);
            found.moved_needlessly += u64::from(winner >= lost && left != winner);
        }
        let opens = 1.0 / (number as f64 + 1.0);
        add(&mut found.opens, winner, opens);
        let sharers = if number < hot { old.as_slice() } else { old.get(..1).unwrap_or_default() };
        for &sharer in sharers {
            add(&mut found.opens_shared, sharer, opens / sharers.len() as f64);
        }
    }
    found
}

fn count(counts: &mut [u64], position: usize) {
    if let Some(count) = counts.get_mut(position) {
        *count += 1;
    }
}

fn add(sums: &mut [f64], position: usize, value: f64) {
    if let Some(sum) = sums.get_mut(position) {
        *sum += value;
    }
}

fn least_of_mean(counts: &[u64]) -> f64 {
    let sum: u64 = counts.iter().sum();
    counts.iter().copied().min().unwrap_or(0) as f64 * counts.len() as f64 / sum as f64
}

fn most_of_mean(values: &[f64]) -> f64 {
    let sum: f64 = values.iter().sum();
    values.iter().copied().fold(0.0, f64::max) * values.len() as f64 / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_members_concerned_move() {
        let found = simulate(20_000, 10, 100);
        assert_eq!(found.held.iter().sum::<u64>(), 20_000);
        assert_eq!(found.held_after_loss.iter().sum::<u64>(), 20_000);
        assert_eq!(found.held_after_loss.first(), Some(&0), "it is lost");
        assert_eq!((found.moved_between_old, found.moved_needlessly), (0, 0));
        assert!((1_500..2_150).contains(&found.moved_to_new), "{}", found.moved_to_new);
        assert!(most_of_mean(&found.opens_shared) < most_of_mean(&found.opens));
    }
}
