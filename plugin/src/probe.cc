#include "probe.hh"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <thread>

namespace forebay {
namespace {

constexpr std::string_view kName = "/.forebay-probe";
constexpr size_t kLength = 32;

bool isProbe(const std::string& path) {
    return path.front() == '/' && path.size() >= kName.size() &&
           path.compare(path.size() - kName.size(), kName.size(), kName) == 0;
}

}  // namespace

std::string readProbe(const std::string& path) {
    if (path.empty() || !isProbe(path)) {
        return kNoToken;
    }
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) {
        return kNoToken;
    }
    struct stat what {};
    std::array<char, kLength + 2> content{};
    const bool is_file = fstat(descriptor, &what) == 0 && S_ISREG(what.st_mode);
    const ssize_t count = is_file ? read(descriptor, content.data(), content.size()) : -1;
    close(descriptor);
    std::string_view token(content.data(), count > 0 ? static_cast<size_t>(count) : 0);
    if (!token.empty() && token.back() == '\n') {
        token.remove_suffix(1);
    }
    const bool is_token =
        token.size() == kLength && token.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    return is_token ? std::string(token) : kNoToken;
}

std::string ProbeReader::token(const std::string& path, std::chrono::milliseconds limit) {
    if (!under_way_.valid()) {
        std::packaged_task<std::string()> task([read = read_, path] { return read(path); });
        under_way_ = task.get_future();
        std::thread(std::move(task)).detach();
    }
    return under_way_.wait_for(limit) == std::future_status::ready ? under_way_.get() : kNoToken;
}

}  // namespace forebay
