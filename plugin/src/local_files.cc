#include "local_files.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <memory>

namespace forebay {
namespace {

constexpr std::string_view kPrefix = "file://localhost/";

/// The path without symbolic links and dots; empty if nothing is there.
std::string resolved(const std::string& path) {
    const std::unique_ptr<char, decltype(&free)> real(realpath(path.c_str(), nullptr), &free);
    return real ? std::string(real.get()) : std::string();
}

/// Whether a resolved path is below a directory. No cache has the root directory as its store.
bool isBelow(const std::string& path, const std::string& directory) {
    const std::string real = resolved(directory);
    return real.size() > 1 && path.size() > real.size() && path.compare(0, real.size(), real) == 0 &&
           path[real.size()] == '/';
}

bool isReadableFile(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (descriptor < 0) {
        return false;
    }
    struct stat what {};
    const bool is_file = fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode);
    ::close(descriptor);
    return is_file;
}

}  // namespace

Directories parseDirectories(std::string_view text) {
    Directories directories;
    while (!text.empty()) {
        const size_t end = text.find(':');
        if (text.front() == '/') {
            directories.emplace_back(text.substr(0, end));
        }
        text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    return directories;
}

std::string localFile(const std::string& url, const Directories& directories) {
    if (url.compare(0, kPrefix.size(), kPrefix) != 0) {
        return "";
    }
    const size_t begin = kPrefix.size() - 1;
    const std::string path = resolved(url.substr(begin, url.find('?') - begin));
    const bool is_announced = std::any_of(directories.begin(), directories.end(),
                                          [&](const std::string& directory) { return isBelow(path, directory); });
    // The library takes the rest of a URL after a question mark for parameters.
    const bool can_be_named = path.find('?') == std::string::npos;
    return is_announced && can_be_named && isReadableFile(path) ? std::string(kPrefix) + path.substr(1) : "";
}

}  // namespace forebay
