// Exclusions: reads that bypass the caches.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace forebay {

/// Patterns of hosts and paths. In each, `*` stands for any run of characters.
///
/// A host pattern means the host and everything below it in the domain, never a part of a name: `example.org` means
/// `a.example.org`, and not `badexample.org`. It may end with a port. A path pattern begins with a slash, and means the
/// path and everything below it.
class Exclusions {
  public:
    Exclusions() = default;

    /// Reads patterns apart by commas or blanks.
    explicit Exclusions(std::string_view patterns);

    /// Whether every file of a server is excluded. `address` is `host:port` in lower case.
    bool coverServer(std::string_view address) const;

    /// Whether a path is excluded, at whatever server.
    bool coverPath(std::string_view path) const;

  private:
    std::vector<std::string> servers_;
    std::vector<std::string> paths_;
};

}  // namespace forebay
