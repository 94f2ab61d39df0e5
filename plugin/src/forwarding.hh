// The forwarding form: a URL at a cache whose path names the origin and the file there.
#pragma once

#include <string>
#include <string_view>

#include "url.hh"

namespace forebay {

/// The path by which a cache knows `path` of the server of `origin`: `/root://user@host:port//path`.
///
/// `path` begins with a slash; what follows it (a query) is kept.
std::string forwardedPath(const Url& origin, std::string_view path);

/// The URL at a cache of the file of `origin`. Its query is kept, followed by `parameters` (`name=value&...`).
std::string forwardedUrl(const Url& cache, const Url& origin, std::string_view parameters);

/// Where a redirect leads that answers a request for `asked`: one that names a server alone means the same file there.
///
/// Its additions to the query are for that server and follow the query of `asked`, except for those that the library
/// puts there itself.
std::string redirectedUrl(const std::string& redirect, const std::string& asked);

/// Whether a file can be read through a cache at all: an absolute path, neither a list of replicas nor one end of a
/// copy between servers, which both name servers of their own.
bool isForwardable(const Url& origin);

}  // namespace forebay
