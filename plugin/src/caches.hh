// The state of the caches in this process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "api.hh"
#include "backoff.hh"
#include "options.hh"
#include "local_files.hh"
#include "probe.hh"

namespace forebay {

/// The options, read once when the plug-in is loaded.
const Options& options();

/// Tells which caches answer, and by which token they know that we see their files.
///
/// A cache that has not answered for a while is greeted, by a thread of its own, before a file is opened there: so that
/// a dead one costs one short look and not the minutes that the client library tries it for.
class Caches {
  public:
    /// Called once: whether the cache answers, and the probe token, empty when it has none.
    using Then = std::function<void(bool is_usable, const std::string& token)>;

    /// The caches of this process; a forked child starts with new ones.
    static Caches& here();

    /// Calls `then` as soon as it is known whether a cache can be asked, on this thread or on another.
    void whenKnown(size_t cache, Then then);

    /// The directories below which a cache may send us to files, where they have been learned.
    Directories directories(size_t cache);

    /// The cache has answered a request.
    void answered(size_t cache);

    /// The cache could not be reached, or did not answer in time.
    void failed(size_t cache, const std::string& why);

  private:
    struct State {
        Backoff backoff;
        Backoff::Clock::time_point last_answer{};
        bool has_answered = false;
        bool is_token_known = false;
        bool is_being_scouted = false;
        std::string token;
        Directories directories;
        std::vector<Then> waiting;
    };

    explicit Caches(size_t count) : states_(count), probes_(count), process_(getpid()) {}

    void scout(size_t cache);
    bool learnToken(size_t cache, std::string& token, Directories& directories);
    void tell(size_t cache);

    std::mutex mutex_;
    std::vector<State> states_;
    std::vector<ProbeReader> probes_;  ///< each is used by the one scout of its cache
    pid_t process_;
};

/// Whether a failure says that a server is gone, or silent, rather than that it refuses something.
bool isFailureOfConnection(const Status& status);

/// Whether a failure of an open or a question, for which a cache had `limit`, says that it is gone or silent. One that
/// expires in less than the time that a cache may take says nothing.
bool isFailureOfCache(const Status& status, std::chrono::seconds limit);

}  // namespace forebay
