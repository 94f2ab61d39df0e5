// Options from the environment.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "exclusions.hh"
#include "url.hh"

namespace forebay {

/// The settings of this process, read once.
struct Options {
    std::vector<Url> caches;
    std::vector<std::string> cache_names;  ///< `host:port` of each
    Exclusions exclusions;
    std::chrono::seconds connect_timeout{3};  ///< in which a cache must greet
    std::chrono::seconds open_timeout{60};    ///< in which it must answer an open, or a question about a path
    std::vector<std::string> complaints;      ///< invalid options, to be logged

    /// Gives the value of an environment variable, or null.
    using Environment = std::function<const char*(const char*)>;

    static Options read(const Environment& environment);

    /// Whether files of a server are read through the caches.
    bool covers(const Url& origin) const;
};

}  // namespace forebay
