#include "forwarding.hh"

namespace forebay {
namespace {

constexpr std::string_view kOfTheLibrary = "xrdcl.";

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

std::string redirectedUrl(const std::string& redirect, const std::string& asked) {
    const auto there = Url::parse(redirect);
    const auto here = Url::parse(asked);
    if (!there || !here || !there->path.empty()) {
        return redirect;
    }
    std::string query = here->query;
    std::string_view rest = there->query;
    while (!rest.empty()) {
        const size_t end = rest.find('&');
        const std::string_view parameter = rest.substr(0, end);
        rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
        if (!parameter.empty() && parameter.substr(0, kOfTheLibrary.size()) != kOfTheLibrary) {
            query += query.empty() ? "" : "&";
            query += parameter;
        }
    }
    return there->server() + "/" + here->path + (query.empty() ? "" : "?" + query);
}

bool isForwardable(const Url& origin) {
    const bool is_absolute = !origin.path.empty() && origin.path.front() == '/';
    const bool is_list = endsWith(origin.path, ".meta4") || endsWith(origin.path, ".metalink");
    return is_absolute && !is_list && !origin.hasParameter("tpc.");
}

}  // namespace forebay
