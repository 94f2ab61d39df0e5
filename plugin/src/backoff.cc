#include "backoff.hh"

#include <algorithm>

namespace forebay {

void Backoff::fail(Clock::time_point now) {
    if (!isOver(now)) {
        return;
    }
    until_ = now + next_;
    next_ = std::min(next_ * 2, kMax);
}

}  // namespace forebay
