// Whether a server answers at all, found out in a short time.
#pragma once

#include <chrono>
#include <string>

#include "url.hh"

namespace forebay {

/// Connects to a server, greets it as a client of XRootD does and waits for its greeting. Blocks, for `limit` at most
/// in addition to the time for resolving its name. Each of its addresses has an equal part of the time that is left.
///
/// The client library would try a dead server for minutes before it fails. Returns the error, if any.
std::string findFault(const Url& server, std::chrono::seconds limit);

}  // namespace forebay
