//! Looking at a store while no engine uses it.

use crate::{
    content::Content,
    dice::Dice,
    world::{World, file_at, path_of},
};
use anyhow::Context;
use bytes::Bytes;
use forebay_cache::CacheKey;
use forebay_store::{Disk, Entry, LocalDisk};
use forebay_types::{BlockIndex, Lfn};
use std::path::Path;

/// An entry and what it holds a part of.
struct Found {
    entry: Entry,
    content: Content,
}

/// Finds out whether every block that a record names is on disk, and is the one it says; blocks that rotted excepted.
pub(crate) fn check(world: &World, root: &Path) -> anyhow::Result<()> {
    for Found { entry, content } in entries(world, root)? {
        for index in recorded(&entry).filter(|index| !world.state().rotten.contains(&(content, *index))) {
            let block = entry.cinfo.geometry.range_of(index);
            let mut bytes = vec![0; usize::try_from(block.len())?];
            entry.data.read_exact_at(&mut bytes, block.start())?;
            if let Some(at) = content.first_difference(block.start(), &bytes) {
                world.find(format!("{content:?}: block {index} is recorded, and differs at {at} on disk"));
            }
        }
    }
    Ok(())
}

/// Flips a bit of some blocks that are recorded.
pub(crate) fn rot(world: &World, root: &Path, dice: &mut Dice) -> anyhow::Result<()> {
    for Found { entry, content } in entries(world, root)? {
        for index in recorded(&entry) {
            let block = entry.cinfo.geometry.range_of(index);
            if block.is_empty() || !dice.one_in(4) {
                continue;
            }
            let (at, mut byte) = (block.start() + dice.below(block.len()), [0]);
            entry.data.read_exact_at(&mut byte, at)?;
            let flipped = byte.map(|byte| byte ^ (1 << dice.below(8)));
            entry.data.write_vectored_at(at, &[Bytes::copy_from_slice(&flipped)])?;
            world.state().rotten.insert((content, index));
        }
    }
    Ok(())
}

fn entries(world: &World, root: &Path) -> anyhow::Result<Vec<Found>> {
    let disk = LocalDisk::open(root).context("opening the store to look at it")?;
    let files = world.state().files.len() as u64;
    let mut found = Vec::new();
    for path in (0..files).map(path_of) {
        let key = CacheKey::fixed(&Lfn::parse(&path)?)?;
        let Some(entry) = disk.open_entry(&key)? else { continue };
        let content = entry.origin.as_ref().zip(file_at(&path));
        match content.and_then(|(mark, file)| Content::of_mtime(file, mark.validator.mtime()?)) {
            Some(content) => found.push(Found { entry, content }),
            None => world.find(format!("the entry of {path} does not say whose content it is")),
        }
    }
    Ok(found)
}

fn recorded(entry: &Entry) -> impl Iterator<Item = BlockIndex> {
    let blocks = entry.cinfo.blocks.clone();
    (0..entry.cinfo.geometry.block_count()).map(BlockIndex).filter(move |index| blocks.contains(*index))
}
