# Facts that all packages share; to be read by `.` in the root of the repository.
# shellcheck shell=bash disable=SC2034
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
summary="disk-caching proxy for high-energy physics data"
description="Clients read files of distant origins through it. Blocks that were read once
are served from its disk. Directories of an XCache can be taken over."
# The same input gives the same package: every time in it is that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
