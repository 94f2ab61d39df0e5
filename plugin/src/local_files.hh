// Files of a cache that clients read themselves: only below the directories that the cache has announced.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay {

/// The directories of a cache's store as clients see them.
using Directories = std::vector<std::string>;

/// Reads the answer to the query for `forebay.directories`: absolute paths separated by colons. Others are left out.
Directories parseDirectories(std::string_view text);

/// The URL of the regular file to which a cache redirects by `url`, without symbolic links, if it can be read and is
/// below one of `directories`, after all links are resolved; else an empty string.
std::string localFile(const std::string& url, const Directories& directories);

}  // namespace forebay
