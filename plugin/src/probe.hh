// The probe file of a cache, which only clients that see its disk can read.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <string>

namespace forebay {

/// The token for a cache whose files are not visible: any wrong token makes it serve them.
inline const std::string kNoToken = "none";

/// The token in a probe file; `kNoToken` when it is not seen here, or is anything else: a cache names the path, and
/// must learn nothing of other files.
std::string readProbe(const std::string& path);

/// Reads probe files on a separate thread: a hanging file system must not block other reads.
class ProbeReader {
  public:
    using Read = std::function<std::string(const std::string&)>;

    explicit ProbeReader(Read read = &readProbe) : read_(std::move(read)) {}

    /// The token, or `kNoToken` when it cannot be read in time. A read that hangs is waited for again, not begun again.
    std::string token(const std::string& path, std::chrono::milliseconds limit);

  private:
    Read read_;
    std::future<std::string> under_way_;
};

}  // namespace forebay
