// The requests of an open file: sending, and the handling of failures.
#include <unistd.h>

#include <mutex>

#include "caches.hh"
#include "open_file.hh"

namespace forebay {
namespace {

const std::string kLastUrl = "LastURL";

/// Whether another place could do better.
bool mayDoBetterElsewhere(const Status& status, const Request& request) {
    if (!request.is_read || status.code == XrdCl::errInvalidArgs || status.code == XrdCl::errInvalidOp) {
        return false;
    }
    const bool is_out_of_time = status.code == XrdCl::errOperationExpired && request.timeout > 0;
    return !is_out_of_time;
}

}  // namespace

Status OpenFile::submit(Request request) {
    File file;
    Place place;
    bool starts_move = false;
    {
        const std::lock_guard lock(mutex_);
        forgetParent();
        if (phase_ == Phase::Open && place_.isCache() && process_ != getpid()) {
            // A forked child has no session with the cache; it gets one of its own.
            phase_ = Phase::Moving;
            process_ = getpid();
            places_ = Places::of(options(), *url_);
            deadline_.reset();
            starts_move = true;
        }
        if (phase_ == Phase::Moving) {
            waiting_.push_back({std::move(request), std::nullopt});
        } else if (phase_ == Phase::Open) {
            file = file_;
            place = place_;
        } else {
            return Status(XrdCl::stError, XrdCl::errInvalidOp);
        }
    }
    if (starts_move) {
        tryNext(Answer());
    }
    return file ? dispatch(file, place, std::move(request)).value_or(Status()) : Status();
}

/// Sends a request to a place. Returns an error that the caller must report: then nothing else reports it.
std::optional<Status> OpenFile::dispatch(const File& file, const Place& place, Request request) {
    if (!place.isCache()) {
        const Status status = request.send(*file, request.application, request.timeout);
        return status.IsOK() ? std::nullopt : std::optional(status);
    }
    auto* then = new Then([self = shared_from_this(), file, place, request](Answer answer) {
        if (const auto fault = self->faultOf(file, place, request, answer)) {
            answer = Answer(*fault);
        }
        if (answer.isOk() || !mayDoBetterElsewhere(*answer.status, request)) {
            answer.give(request.application);
        } else {
            self->failedAt(file, request, std::move(answer));
        }
    });
    const Status status = request.send(*file, then, request.timeout);
    if (status.IsOK()) {
        return std::nullopt;
    }
    delete then;
    if (!mayDoBetterElsewhere(status, request)) {
        return status;
    }
    failedAt(file, std::move(request), Answer(status));
    return std::nullopt;
}

/// Why an answer of a cache that says it is good is not.
std::optional<Status> OpenFile::faultOf(const File& file, const Place& place, const Request& request,
                                        const Answer& answer) {
    if (!answer.isOk() || !request.is_read) {
        return std::nullopt;
    }
    uint64_t size = 0;
    {
        const std::lock_guard lock(mutex_);
        size = identity_ ? identity_->size : 0;
    }
    if (!answer.response || (request.is_whole && !request.is_whole(*answer.response, size))) {
        return Status(XrdCl::stError, XrdCl::errInvalidResponse, 0, "the answer is empty or too short");
    }
    // Not under our lock: the library holds its own one when it answers a stat.
    std::string last;
    const bool may_be_elsewhere = request.is_of_bytes && !place.isFile();
    if (may_be_elsewhere && file->GetProperty(kLastUrl, last) && last.compare(0, 5, "file:") == 0) {
        // The library has followed a redirect during the reads, and does not say to which file: we open it ourselves.
        return Status(XrdCl::stError, XrdCl::errRedirect);
    }
    return std::nullopt;
}

/// A read failed at a cache: it waits for the move to another place, which it starts unless one is under way or done.
void OpenFile::failedAt(const File& file, Request request, Answer answer) {
    const Status why = *answer.status;
    Place left;
    {
        const std::lock_guard lock(mutex_);
        const bool is_here = file == file_;
        if (phase_ == Phase::Moving) {
            waiting_.push_back({std::move(request), why});
            return;
        }
        if (phase_ == Phase::Open && is_here && identity_ && moves_left_ > 0) {
            waiting_.push_back({std::move(request), why});
            --moves_left_;
            phase_ = Phase::Moving;
            places_ = why.code == XrdCl::errLocalError ? Places::servedBy(place_.cache)
                      : why.code == XrdCl::errRedirect ? Places::leftBy(place_.cache)
                                                       : Places::origin();
            deadline_.reset();
            left = place_;
        } else if (phase_ != Phase::Open || is_here) {
            request.send = nullptr;
        }
    }
    if (left.isCache()) {
        const std::string text = why.ToString();
        XrdCl::DefaultEnv::GetLog()->Warning(kLogTopic, "reading %s at cache %s failed, continuing elsewhere: %s",
                                             url_->path.c_str(), options().cache_names[left.cache].c_str(),
                                             text.c_str());
        if (!left.isFile() && isFailureOfConnection(why)) {
            Caches::here().failed(left.cache, text);
        }
        tryNext(Answer());
    } else if (request.send) {
        sendAgain({{std::move(request), why}});
    } else {
        answer.give(request.application);
    }
}

/// In a forked child a move in progress never ends; requests that wait for it wait in the parent. Under the lock.
void OpenFile::forgetParent() {
    if (phase_ == Phase::Moving && process_ != getpid()) {
        phase_ = Phase::Open;
        waiting_.clear();
        close_waits_.reset();
    }
}

void OpenFile::sendAgain(std::vector<Waiting> waiting) {
    for (Waiting& item : waiting) {
        XrdCl::ResponseHandler* application = item.request.application;
        const Status status = submit(std::move(item.request));
        if (!status.IsOK()) {
            Answer(status).give(application);
        }
    }
}

Status OpenFile::close(XrdCl::ResponseHandler* application, Timeout timeout) {
    File file;
    bool is_at_cache = false;
    {
        const std::lock_guard lock(mutex_);
        forgetParent();
        switch (phase_) {
            case Phase::Closed:
                return Status(XrdCl::stOK, XrdCl::suAlreadyDone);
            case Phase::Opening:
                return Status(XrdCl::stError, XrdCl::errInvalidOp);
            case Phase::Closing:
                return Status(XrdCl::stError, XrdCl::errInProgress);
            case Phase::Moving:
                if (close_waits_) {
                    return Status(XrdCl::stError, XrdCl::errInProgress);
                }
                close_waits_ = CloseRequest{application, timeout};
                return Status();
            case Phase::Open:
                phase_ = Phase::Closing;
                file = file_;
                is_at_cache = place_.isCache();
        }
    }
    auto* then = new Then([self = shared_from_this(), file, is_at_cache, application](Answer answer) {
        self->closed();
        // The cache closes files of a lost session, and nothing was written.
        (is_at_cache ? Answer(Status()) : std::move(answer)).give(application);
    });
    const Status status = file->Close(then, timeout);
    if (status.IsOK() && status.code != XrdCl::suAlreadyDone) {
        return status;
    }
    delete then;
    closed();
    if (!is_at_cache) {
        return status;
    }
    Answer(Status()).give(application);
    return Status();
}

/// Closes files whose close was requested during the move.
void OpenFile::closeWaiting(const std::optional<CloseRequest>& request) {
    if (!request) {
        return;
    }
    const Status status = close(request->application, request->timeout);
    if (!status.IsOK() || status.code == XrdCl::suAlreadyDone) {
        Answer(status).give(request->application);
    }
}

void OpenFile::closed() {
    File file;
    const std::lock_guard lock(mutex_);
    phase_ = Phase::Closed;
    file.swap(file_);
}

}  // namespace forebay
