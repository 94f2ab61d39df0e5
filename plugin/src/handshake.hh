// Whether a server answers at all, found out in a short time.
#pragma once

#include <chrono>
#include <string>

#include "url.hh"

namespace forebay {

/// Connects to a server, greets it as a client of XRootD does and waits for its greeting. Blocks, for `limit` at most
/// beside the time that looking up its name takes.
///
/// The client library would try a dead server for minutes before it says so. Returns what is wrong, or nothing.
std::string findFault(const Url& server, std::chrono::seconds limit);

}  // namespace forebay
