// Where a file, or the answer to a question about a path, can be had.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <string>

#include "options.hh"

namespace forebay {

/// One server to ask.
struct Place {
    enum class Kind {
        Origin,  ///< the server of the URL
        Cache,   ///< one of the caches
    };

    Kind kind = Kind::Origin;
    size_t cache = 0;               ///< which one
    bool may_leave = true;          ///< whether it may send us to a file that we are to read ourselves
    std::string url;                ///< where it has sent us, if it has
    std::string asked;              ///< the URL that was opened there
    int redirects = 0;              ///< how often
    std::chrono::seconds limit{0};  ///< for the open there

    bool isCache() const { return kind == Kind::Cache; }

    /// Whether it is a file that we read ourselves.
    bool isFile() const { return url.compare(0, 5, "file:") == 0; }
};

/// The places of one file in the order in which they are tried; the last one is its origin.
class Places {
  public:
    /// Only the origin.
    static Places origin() { return Places(); }

    /// Two caches at most to which the URL may be sent, then the origin: each that is silent takes its time.
    static Places of(const Options& options, const Url& file);

    /// The cache by its own bytes, then the origin.
    static Places servedBy(size_t cache);

    /// The cache again, which may send us to a file, then the origin.
    static Places leftBy(size_t cache);

    /// The next place, or nothing.
    bool next(Place& place);

    /// After a refusal only the origin is asked.
    void dropCaches();

    /// Tries the cache again without letting it send us to a file.
    void tryServed(size_t cache);

  private:
    Places() : left_{Place{}} {}

    std::deque<Place> left_;
};

}  // namespace forebay
