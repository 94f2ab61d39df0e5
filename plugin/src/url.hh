// URLs of files at XRootD servers, taken apart as the client library does it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace forebay {

/// A URL of one of XRootD's own schemes: `root://user:word@host:port//path?query`.
struct Url {
    std::string scheme;
    std::string user;  ///< without the password, which is for the server of the URL alone
    std::string host;  ///< an IPv6 address keeps its brackets
    uint16_t port = kDefaultPort;
    std::string path;  ///< the part after the first slash after the host; absolute paths begin with another slash
    std::string query;  ///< without the question mark

    static constexpr uint16_t kDefaultPort = 1094;

    /// Parses a URL; nothing for other schemes and invalid URLs.
    static std::optional<Url> parse(std::string_view text);

    /// `host:port`, in lower case: the identity of a server.
    std::string address() const;

    /// `scheme://host:port`.
    std::string server() const;

    /// Whether the connection is to be encrypted.
    bool isSecure() const { return scheme == "roots" || scheme == "xroots"; }

    /// Whether its parameters may go to `cache`: those of an encrypted URL can be tokens or name credentials, and are not
    /// sent in clear. Parameters that the library itself adds, and the type of a checksum, are not secret.
    bool mayBeSentTo(const Url& cache) const;

    /// Whether the query has a parameter whose name begins with `prefix`.
    bool hasParameter(std::string_view prefix) const;
};

/// ASCII letters in lower case.
std::string lowerCase(std::string_view text);

}  // namespace forebay
