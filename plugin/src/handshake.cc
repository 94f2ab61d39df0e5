#include "handshake.hh"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

namespace forebay {
namespace {

using Clock = std::chrono::steady_clock;

/// Length 0x14 of the handshake and the number 2012, which identify the protocol.
constexpr std::array<unsigned char, 20> kGreeting{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0x07, 0xdc};

/// Stream 0, status ok, eight bytes to follow.
constexpr std::array<unsigned char, 8> kAnswerHeader{0, 0, 0, 0, 0, 0, 0, 8};

class Socket {
  public:
    explicit Socket(int descriptor) : descriptor_(descriptor) {}
    ~Socket() {
        if (descriptor_ >= 0) {
            close(descriptor_);
        }
    }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;
    int descriptor() const { return descriptor_; }

  private:
    int descriptor_;
};

std::string errorText(int error) {
    return std::generic_category().message(error);
}

/// Waits until the socket can be read or written; returns an error number, or 0.
int waitFor(const Socket& socket, short events, Clock::time_point deadline) {
    while (true) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
        if (left <= 0) {
            return ETIMEDOUT;
        }
        pollfd waiting{socket.descriptor(), events, 0};
        const int ready = poll(&waiting, 1, static_cast<int>(left));
        if (ready > 0) {
            return 0;
        }
        if (ready < 0 && errno != EINTR) {
            return errno;
        }
    }
}

int connectTo(const Socket& socket, const addrinfo& address, Clock::time_point deadline) {
    if (connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) == 0) {
        return 0;
    }
    if (errno != EINPROGRESS) {
        return errno;
    }
    if (const int error = waitFor(socket, POLLOUT, deadline)) {
        return error;
    }
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length);
    return error;
}

/// Reads the beginning of the answer and compares it; returns an error number, or 0.
int hearAnswer(const Socket& socket, Clock::time_point deadline) {
    std::array<unsigned char, kAnswerHeader.size()> answer{};
    size_t received = 0;
    while (received < answer.size()) {
        if (const int error = waitFor(socket, POLLIN, deadline)) {
            return error;
        }
        const ssize_t count = recv(socket.descriptor(), answer.data() + received, answer.size() - received, 0);
        if (count == 0) {
            return ECONNRESET;
        }
        if (count < 0 && errno != EINTR && errno != EAGAIN) {
            return errno;
        }
        received += count > 0 ? static_cast<size_t>(count) : 0;
    }
    return answer == kAnswerHeader ? 0 : EPROTO;
}

int greet(const addrinfo& address, Clock::time_point deadline) {
    const Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (socket.descriptor() < 0) {
        return errno;
    }
    if (const int error = connectTo(socket, address, deadline)) {
        return error;
    }
    if (send(socket.descriptor(), kGreeting.data(), kGreeting.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(kGreeting.size())) {
        return errno;
    }
    return hearAnswer(socket, deadline);
}

}  // namespace

std::string findFault(const Url& server, std::chrono::seconds limit) {
    std::string host = server.host;
    if (host.front() == '[') {
        host = host.substr(1, host.size() - 2);
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICSERV;
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(host.c_str(), std::to_string(server.port).c_str(), &hints, &found)) {
        return gai_strerror(error);
    }
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
    const Clock::time_point deadline = Clock::now() + limit;
    int addresses_left = 0;
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
        ++addresses_left;
    }
    int error = 0;
    for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
        const Clock::time_point now = Clock::now();
        error = greet(*address, now + (deadline - now) / addresses_left--);
        if (error == 0) {
            return "";
        }
    }
    return errorText(error);
}

}  // namespace forebay
