#include "url.hh"

#include <algorithm>
#include <array>

namespace forebay {
namespace {

constexpr std::array<std::string_view, 4> kSchemes{"root", "roots", "xroot", "xroots"};

/// Beginnings of parameters that are never secret.
constexpr std::array<std::string_view, 2> kHarmless{"xrdcl.", "cks.type="};

std::optional<uint16_t> parsePort(std::string_view text) {
    if (text.empty() || text.size() > 5 || text.find_first_not_of("0123456789") != std::string_view::npos) {
        return std::nullopt;
    }
    const unsigned long port = std::stoul(std::string(text));
    if (port == 0 || port > UINT16_MAX) {
        return std::nullopt;
    }
    return static_cast<uint16_t>(port);
}

/// Reads `host`, `host:port`, `[address]` or `[address]:port`.
bool parseHost(std::string_view text, Url& url) {
    size_t end = text.find(':');
    if (!text.empty() && text.front() == '[') {
        const size_t bracket = text.find(']');
        if (bracket == std::string_view::npos) {
            return false;
        }
        end = bracket + 1 == text.size() ? std::string_view::npos : bracket + 1;
    }
    url.host = std::string(text.substr(0, end));
    if (url.host.empty()) {
        return false;
    }
    if (end == std::string_view::npos) {
        return true;
    }
    const auto port = text[end] == ':' ? parsePort(text.substr(end + 1)) : std::nullopt;
    url.port = port.value_or(0);
    return port.has_value();
}

}  // namespace

std::optional<Url> Url::parse(std::string_view text) {
    const size_t colon = text.find("://");
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    Url url;
    url.scheme = std::string(text.substr(0, colon));
    if (std::find(kSchemes.begin(), kSchemes.end(), url.scheme) == kSchemes.end()) {
        return std::nullopt;
    }
    text.remove_prefix(colon + 3);
    const size_t authority_end = text.find_first_of("/?");
    std::string_view authority = text.substr(0, authority_end);
    std::string_view rest = authority_end == std::string_view::npos ? std::string_view{} : text.substr(authority_end);
    if (const size_t at = authority.rfind('@'); at != std::string_view::npos) {
        const std::string_view user = authority.substr(0, at);
        url.user = std::string(user.substr(0, user.find(':')));
        authority.remove_prefix(at + 1);
    }
    if (!parseHost(authority, url)) {
        return std::nullopt;
    }
    if (!rest.empty() && rest.front() == '/') {
        rest.remove_prefix(1);
    }
    const size_t question = rest.find('?');
    url.path = std::string(rest.substr(0, question));
    if (question != std::string_view::npos) {
        url.query = std::string(rest.substr(question + 1));
    }
    return url;
}

std::string Url::address() const {
    return lowerCase(host) + ":" + std::to_string(port);
}

std::string Url::server() const {
    return scheme + "://" + host + ":" + std::to_string(port);
}

bool Url::hasParameter(std::string_view prefix) const {
    std::string_view rest = query;
    while (!rest.empty()) {
        const size_t end = rest.find('&');
        if (rest.substr(0, end).substr(0, prefix.size()) == prefix) {
            return true;
        }
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return false;
}

bool Url::mayBeSentTo(const Url& cache) const {
    if (!isSecure() || cache.isSecure()) {
        return true;
    }
    std::string_view rest = query;
    while (!rest.empty()) {
        const size_t end = rest.find('&');
        const std::string_view parameter = rest.substr(0, end);
        const bool is_harmless = std::any_of(kHarmless.begin(), kHarmless.end(), [&](std::string_view name) {
            return parameter.substr(0, name.size()) == name;
        });
        if (!parameter.empty() && !is_harmless) {
            return false;
        }
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    return true;
}

std::string lowerCase(std::string_view text) {
    std::string lower(text);
    std::transform(lower.begin(), lower.end(), lower.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return lower;
}

}  // namespace forebay
