#include "options.hh"

#include <algorithm>

namespace forebay {
namespace {

/// Reads one cache: `root://host:port`, or `host:port`.
std::optional<Url> parseCache(std::string_view text) {
    const bool is_bare = text.find("://") == std::string_view::npos;
    auto cache = Url::parse(is_bare ? "root://" + std::string(text) : std::string(text));
    const bool has_rest = cache && (cache->path.find_first_not_of('/') != std::string::npos || !cache->query.empty());
    return has_rest ? std::nullopt : cache;
}

void readCaches(std::string_view list, Options& options) {
    constexpr std::string_view kSeparators = ", \t\n";
    while (true) {
        const size_t begin = list.find_first_not_of(kSeparators);
        if (begin == std::string_view::npos) {
            return;
        }
        list.remove_prefix(begin);
        const std::string_view text = list.substr(0, list.find_first_of(kSeparators));
        list.remove_prefix(text.size());
        const auto cache = parseCache(text);
        if (!cache) {
            options.complaints.push_back("FOREBAY: `" + std::string(text) + "` is no cache: write root://HOST:PORT");
        } else if (!std::count(options.cache_names.begin(), options.cache_names.end(), cache->address())) {
            options.caches.push_back(*cache);
            options.cache_names.push_back(cache->address());
        }
    }
}

void readSeconds(const Options::Environment& environment, const char* name, long max, std::chrono::seconds& value,
                 Options& options) {
    const char* text = environment(name);
    if (text == nullptr || *text == '\0') {
        return;
    }
    char* end = nullptr;
    const long seconds = std::strtol(text, &end, 10);
    if (*end == '\0' && seconds >= 1 && seconds <= max) {
        value = std::chrono::seconds(seconds);
    } else {
        options.complaints.push_back(std::string(name) + ": `" + text + "` is no number of seconds from 1 to " +
                                     std::to_string(max) + ": " + std::to_string(value.count()) + " is used");
    }
}

}  // namespace

Options Options::read(const Environment& environment) {
    const auto text = [&](const char* name) { return std::string(environment(name) ? environment(name) : ""); };
    Options options;
    readCaches(text("FOREBAY"), options);
    options.exclusions = Exclusions(text("FOREBAY_EXCLUDE"));
    readSeconds(environment, "FOREBAY_CONNECT_TIMEOUT", 60, options.connect_timeout, options);
    readSeconds(environment, "FOREBAY_OPEN_TIMEOUT", 3600, options.open_timeout, options);
    if (options.caches.empty()) {
        options.complaints.push_back("FOREBAY names no cache: everything is read from origins");
    }
    return options;
}

bool Options::covers(const Url& origin) const {
    const std::string address = origin.address();
    const bool is_cache = std::count(cache_names.begin(), cache_names.end(), address) != 0;
    return !is_cache && !exclusions.coverServer(address);
}

}  // namespace forebay
