#include "exclusions.hh"

#include <algorithm>

#include "url.hh"

namespace forebay {
namespace {

/// Whether the whole text matches: the last `*` takes one character more whenever what follows it does not fit.
bool matches(std::string_view pattern, std::string_view text) {
    size_t at = 0, in_text = 0, star = std::string_view::npos, taken = 0;
    while (in_text < text.size()) {
        if (at < pattern.size() && pattern[at] == '*') {
            star = at++;
            taken = in_text;
        } else if (at < pattern.size() && pattern[at] == text[in_text]) {
            ++at;
            ++in_text;
        } else if (star != std::string_view::npos) {
            at = star + 1;
            in_text = ++taken;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

bool isMeant(const std::string& pattern, std::string_view host) {
    return matches(pattern, host) || matches("*." + pattern, host);
}

/// One slash where there are several, none at the end.
std::string squeezed(std::string_view path) {
    std::string result;
    for (const char c : path) {
        if (c != '/' || result.empty() || result.back() != '/') {
            result += c;
        }
    }
    if (result.size() > 1 && result.back() == '/') {
        result.pop_back();
    }
    return result;
}

}  // namespace

Exclusions::Exclusions(std::string_view patterns) {
    constexpr std::string_view kSeparators = ", \t\n";
    while (true) {
        const size_t begin = patterns.find_first_not_of(kSeparators);
        if (begin == std::string_view::npos) {
            return;
        }
        patterns.remove_prefix(begin);
        const std::string_view pattern = patterns.substr(0, patterns.find_first_of(kSeparators));
        patterns.remove_prefix(pattern.size());
        if (pattern.front() == '/') {
            paths_.push_back(squeezed(pattern));
        } else {
            servers_.push_back(lowerCase(pattern));
        }
    }
}

bool Exclusions::coverServer(std::string_view address) const {
    const std::string_view host = address.substr(0, address.rfind(':'));
    return std::any_of(servers_.begin(), servers_.end(),
                       [&](const std::string& pattern) { return isMeant(pattern, host) || isMeant(pattern, address); });
}

bool Exclusions::coverPath(std::string_view path) const {
    const std::string text = squeezed(path);
    return std::any_of(paths_.begin(), paths_.end(), [&](const std::string& pattern) {
        return pattern == "/" || matches(pattern, text) || matches(pattern + "/*", text);
    });
}

}  // namespace forebay
