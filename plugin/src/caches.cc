#include "caches.hh"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include "handshake.hh"

namespace forebay {
namespace {

using Clock = Backoff::Clock;

/// A cache that answered so short a time ago is not greeted again.
constexpr std::chrono::seconds kAliveFor{2};

/// The time in which a cache names its probe file, login included, as a multiple of that in which it greets: the opens
/// of the application wait for it, whatever limits they have.
constexpr int kGreetingsPerQuestion = 4;

}  // namespace

const Options& options() {
    static const Options* const read = new Options(Options::read(&std::getenv));
    return *read;
}

Caches& Caches::here() {
    static std::atomic<Caches*> current{nullptr};
    Caches* known = current.load(std::memory_order_acquire);
    while (known == nullptr || known->process_ != getpid()) {
        auto* fresh = new Caches(options().caches.size());
        if (current.compare_exchange_strong(known, fresh)) {
            return *fresh;  // the parent's state is leaked: threads that do not exist here may hold its lock
        }
        delete fresh;
    }
    return *known;
}

void Caches::whenKnown(size_t cache, Then then) {
    bool is_usable = false;
    std::string token;
    {
        const std::lock_guard lock(mutex_);
        State& state = states_[cache];
        const auto now = Clock::now();
        const bool is_alive = state.has_answered && now - state.last_answer < kAliveFor;
        if (state.backoff.isOver(now) && !(is_alive && state.is_token_known)) {
            state.waiting.push_back(std::move(then));
            if (state.is_being_scouted) {
                return;
            }
            state.is_being_scouted = true;
        } else {
            is_usable = state.backoff.isOver(now);
            token = state.token;
        }
    }
    if (then) {
        then(is_usable, token);
        return;
    }
    try {
        std::thread([this, cache] { scout(cache); }).detach();
    } catch (const std::exception& error) {
        failed(cache, error.what());
        tell(cache);
    }
}

Directories Caches::directories(size_t cache) {
    const std::lock_guard lock(mutex_);
    return states_[cache].directories;
}

void Caches::answered(size_t cache) {
    const std::lock_guard lock(mutex_);
    State& state = states_[cache];
    state.last_answer = Clock::now();
    state.has_answered = true;
    state.backoff.succeed();
}

void Caches::failed(size_t cache, const std::string& why) {
    XrdCl::DefaultEnv::GetLog()->Warning(kLogTopic, "cache %s is left out for a while: %s",
                                         options().cache_names[cache].c_str(), why.c_str());
    const std::lock_guard lock(mutex_);
    State& state = states_[cache];
    state.backoff.fail(Clock::now());
    state.has_answered = false;
    state.is_token_known = false;
}

void Caches::scout(size_t cache) {
    try {
        std::string fault = findFault(options().caches[cache], options().connect_timeout);
        std::string token;
        Directories directories;
        if (fault.empty() && !learnToken(cache, token, directories)) {
            fault = "it greets and answers nothing";
        }
        if (fault.empty()) {
            const std::lock_guard lock(mutex_);
            State& state = states_[cache];
            state.last_answer = Clock::now();
            state.has_answered = true;
            state.is_token_known = true;
            state.token = token;
            state.directories = std::move(directories);
        } else {
            failed(cache, fault);
        }
    } catch (const std::exception& error) {
        failed(cache, error.what());
    }
    tell(cache);
}

/// Queries the path of the cache's probe file, reads it, and learns the directories of the store that it proves. False
/// when the cache does not answer.
bool Caches::learnToken(size_t cache, std::string& token, Directories& directories) {
    XrdCl::FileSystem server(XrdCl::URL(options().caches[cache].server()), false);
    XrdCl::Buffer question;
    question.FromString("forebay.probe forebay.directories");
    XrdCl::Buffer* received = nullptr;
    const auto patience = std::min(options().open_timeout, kGreetingsPerQuestion * options().connect_timeout);
    const auto limit = static_cast<Timeout>(patience.count());
    const Status status = server.Query(XrdCl::QueryCode::Config, question, received, limit);
    const std::unique_ptr<XrdCl::Buffer> answer(received);
    if (!status.IsOK() || !answer || answer->GetSize() == 0) {
        return !isFailureOfConnection(status);
    }
    constexpr std::string_view kEnds("\n\0", 2);
    const std::string text(answer->GetBuffer(), answer->GetSize());
    const std::string path = text.substr(0, text.find_first_of(kEnds));
    if (path.empty() || path.front() != '/') {
        return true;
    }
    token = probes_[cache].token(path, options().connect_timeout);
    if (token != kNoToken) {
        const std::string rest = text.substr(std::min(text.size(), path.size() + 1));
        directories = parseDirectories(rest.substr(0, rest.find_first_of(kEnds)));
        // The directory of the probe file, which caches before 0.1 announce alone.
        directories.push_back(path.substr(0, path.rfind('/')));
    }
    return true;
}

void Caches::tell(size_t cache) {
    std::vector<Then> waiting;
    bool is_usable = false;
    std::string token;
    {
        const std::lock_guard lock(mutex_);
        State& state = states_[cache];
        state.is_being_scouted = false;
        waiting.swap(state.waiting);
        is_usable = state.backoff.isOver(Clock::now());
        token = state.token;
    }
    for (const Then& then : waiting) {
        then(is_usable, token);
    }
}

bool isFailureOfConnection(const Status& status) {
    if (status.IsOK()) {
        return false;
    }
    switch (status.code) {
        case XrdCl::errHandShakeFailed:
        case XrdCl::errOperationExpired:
        case XrdCl::errOperationInterrupted:
        case XrdCl::errInvalidMessage:
        case XrdCl::errInvalidResponse:
        case XrdCl::errInternal:
        case XrdCl::errDataError:
            return true;
        default:
            return XrdCl::Status::IsSocketError(status.code);
    }
}

bool isFailureOfCache(const Status& status, std::chrono::seconds limit) {
    const bool is_hurried = status.code == XrdCl::errOperationExpired && limit < options().open_timeout;
    return isFailureOfConnection(status) && !is_hurried;
}

}  // namespace forebay
