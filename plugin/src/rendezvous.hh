// Which of several caches a file belongs to.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace forebay {

/// The caches in the order in which a file is looked for in them, as positions in `caches`.
///
/// Rendezvous hashing: each client draws the same order, whatever the order of its list, and a cache that goes away
/// moves only the files that were its own.
std::vector<size_t> rendezvousOrder(const std::vector<std::string>& caches, std::string_view file);

}  // namespace forebay
