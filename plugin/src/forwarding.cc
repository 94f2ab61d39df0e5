#include "forwarding.hh"

namespace forebay {
namespace {

bool endsWith(std::string_view text, std::string_view end) {
    return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::string forwardedPath(const Url& origin, std::string_view path) {
    std::string forwarded = "/" + origin.scheme + "://";
    if (!origin.user.empty()) {
        forwarded += origin.user + "@";
    }
    forwarded += origin.host + ":" + std::to_string(origin.port) + "/";
    forwarded += path;
    return forwarded;
}

std::string forwardedUrl(const Url& cache, const Url& origin, std::string_view parameters) {
    std::string url = cache.server() + "/" + forwardedPath(origin, origin.path);
    char separator = '?';
    if (!origin.query.empty()) {
        url += separator + origin.query;
        separator = '&';
    }
    if (!parameters.empty()) {
        url += separator;
        url += parameters;
    }
    return url;
}

bool isForwardable(const Url& origin) {
    const bool is_absolute = !origin.path.empty() && origin.path.front() == '/';
    const bool is_list = endsWith(origin.path, ".meta4") || endsWith(origin.path, ".metalink");
    return is_absolute && !is_list && !origin.hasParameter("tpc.");
}

}  // namespace forebay
