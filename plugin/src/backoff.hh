// How long a cache that failed is left out.
#pragma once

#include <chrono>

namespace forebay {

/// Left out for 30 s after a failure, twice as long after each further one in a row, ten minutes at most.
class Backoff {
  public:
    using Clock = std::chrono::steady_clock;

    static constexpr std::chrono::seconds kFirst{30};
    static constexpr std::chrono::seconds kMax{600};

    /// Whether the cache may be asked.
    bool isOver(Clock::time_point now) const { return now >= until_; }

    /// The cache failed. Failures while it is excluded anyway are ignored.
    void fail(Clock::time_point now);

    /// The cache has answered.
    void succeed() { next_ = kFirst; }

  private:
    Clock::time_point until_{};
    std::chrono::seconds next_ = kFirst;
};

}  // namespace forebay
