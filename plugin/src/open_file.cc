#include "open_file.hh"

#include <unistd.h>

#include <atomic>
#include <mutex>

#include "caches.hh"
#include "forwarding.hh"

namespace forebay {
namespace {

using XrdCl::OpenFlags;

const std::string kReadRecovery = "ReadRecovery";
const std::string kFollowRedirects = "FollowRedirects";
const std::string kDataServer = "DataServer";
const std::string kLastUrl = "LastURL";

constexpr int kRedirectsMax = 16;

/// A file released by its last holder, which may be a thread of the library and must not wait.
void dispose(XrdCl::File* file) {
    if (!file->IsOpen()) {
        delete file;
        return;
    }
    constexpr Timeout kCloseSeconds = 30;
    auto* then = new Then([file](Answer) { delete file; });
    const Status status = file->Close(then, kCloseSeconds);
    if (status.IsOK() && status.code != XrdCl::suAlreadyDone) {
        return;
    }
    delete then;
    if (!file->IsOpen()) {
        delete file;  // else its end would wait for an answer: it is left to itself
    }
}

bool isForReading(OpenFlags::Flags flags) {
    const int changing = OpenFlags::Delete | OpenFlags::New | OpenFlags::Update | OpenFlags::Write |
                         OpenFlags::MakePath | OpenFlags::POSC | OpenFlags::Replica | kXR_open_apnd;
    return (static_cast<int>(flags) & changing) == 0;
}

}  // namespace

Status OpenFile::open(const std::string& url, OpenFlags::Flags flags, XrdCl::Access::Mode mode,
                      XrdCl::ResponseHandler* application, Timeout timeout) {
    {
        const std::lock_guard lock(mutex_);
        if (phase_ != Phase::Closed) {
            return Status(XrdCl::stError, XrdCl::errInvalidOp);
        }
        phase_ = Phase::Opening;
        url_text_ = url;
        url_ = Url::parse(url);
        flags_ = flags;
        mode_ = mode;
        opener_ = application;
        process_ = getpid();
        identity_.reset();
        moves_left_ = 3;
        deadline_.reset();
        if (timeout > 0) {
            deadline_ = Clock::now() + std::chrono::seconds(timeout);
        }
        const bool is_covered = url_ && isForReading(flags) && isForwardable(*url_) && options().covers(*url_) &&
                                !options().exclusions.coverPath(url_->path);
        places_ = is_covered ? Places::of(options(), *url_) : Places::origin();
    }
    tryNext(Answer());
    return Status();
}

/// Continues at the next place; `last` is the answer of the previous one.
void OpenFile::tryNext(Answer last) {
    Place place;
    bool has_place = false;
    {
        const std::lock_guard lock(mutex_);
        has_place = places_.next(place);
    }
    if (!has_place) {
        giveUp(std::move(last));
        return;
    }
    if (!place.isCache()) {
        openAt(place, "");
        return;
    }
    Caches::here().whenKnown(place.cache, [self = shared_from_this(), place](bool is_usable, const std::string& token) {
        if (is_usable) {
            self->openAt(place, token);
        } else {
            self->tryNext(Answer(Status(XrdCl::stError, XrdCl::errConnectionError)));
        }
    });
}

void OpenFile::openAt(Place place, const std::string& token) {
    place.asked = urlAt(place, token);
    const Timeout limit = limitAt(place);
    place.limit = std::chrono::seconds(limit);
    const File file = makeFile(place);
    auto* then = new Then(
        [self = shared_from_this(), place, file](Answer answer) { self->openedAt(place, file, std::move(answer)); });
    const Status status = file->Open(place.asked, flags_, mode_, then, limit);
    if (!status.IsOK()) {
        delete then;
        openedAt(place, file, Answer(status));
    }
}

std::string OpenFile::urlAt(const Place& place, const std::string& token) const {
    if (!place.isCache()) {
        return url_text_;
    }
    if (!place.url.empty()) {
        return place.url;
    }
    const std::string& proof = place.may_leave ? token : kNoToken;
    const std::string parameters = proof.empty() ? "" : "forebay.probe=" + proof;
    return forwardedUrl(options().caches[place.cache], *url_, parameters);
}

/// A cache may take half of the time that the application gives: the origin needs the rest.
Timeout OpenFile::limitAt(const Place& place) const {
    const std::chrono::seconds ours = options().open_timeout;
    if (!deadline_) {
        return place.isCache() ? static_cast<Timeout>(ours.count()) : Timeout{0};
    }
    const auto left = std::chrono::duration_cast<std::chrono::seconds>(*deadline_ - Clock::now());
    const auto share = place.isCache() ? std::min(ours, left / 2) : left;
    return static_cast<Timeout>(std::max<std::chrono::seconds::rep>(share.count(), 1));
}

OpenFile::File OpenFile::makeFile(const Place& place) const {
    const File file(new XrdCl::File(false), dispose);
    const std::lock_guard lock(mutex_);
    for (const auto& [name, value] : properties_) {
        file->SetProperty(name, value);
    }
    if (place.isCache()) {
        // The library would try to get back to the cache for minutes; we have another place to go to.
        file->SetProperty(kReadRecovery, "false");
        // And that of 5.5 calls itself until its stack is full when it is sent to a file that it cannot open.
        file->SetProperty(kFollowRedirects, "false");
    }
    return file;
}

/// Once it is open, the library does right when it is sent to a file that it cannot open: the read fails.
void OpenFile::followFromNowOn(XrdCl::File& file) const {
    const std::lock_guard lock(mutex_);
    const auto wish = properties_.find(kFollowRedirects);
    file.SetProperty(kFollowRedirects, wish == properties_.end() ? "true" : wish->second);
}

void OpenFile::openedAt(const Place& place, File file, Answer answer) {
    if (!answer.isOk()) {
        if (place.isCache() && answer.status->code == XrdCl::errRedirect) {
            redirectedAt(place, std::move(answer));
        } else {
            refusedAt(place, std::move(answer));
        }
        return;
    }
    if (place.isCache()) {
        if (place.may_leave) {
            followFromNowOn(*file);
        }
        Caches::here().answered(place.cache);
        identify(place, std::move(file), std::move(answer));
        return;
    }
    bool is_moving = false;
    {
        const std::lock_guard lock(mutex_);
        is_moving = phase_ == Phase::Moving;
    }
    if (is_moving) {
        identify(place, std::move(file), std::move(answer));
    } else {
        settle(place, std::move(file), std::nullopt, std::move(answer));
    }
}

/// A cache sends us elsewhere: to another of its servers, or to its file, if we see it.
void OpenFile::redirectedAt(Place place, Answer answer) {
    place.url = redirectedUrl(answer.status->GetErrorMessage(), place.asked);
    ++place.redirects;
    Caches::here().answered(place.cache);
    const auto there = Url::parse(place.url);
    bool may_follow = there && place.redirects <= kRedirectsMax && url_->mayBeSentTo(*there);
    if (place.isFile()) {
        const std::string file = place.may_leave ? localFile(place.url, Caches::here().directories(place.cache)) : "";
        may_follow = !file.empty();
        place.url = may_follow ? file : place.url;
    }
    if (there && there->address() == url_->address()) {
        const std::lock_guard lock(mutex_);
        places_.dropCaches();  // as caches do that only fill: the origin remains
    } else if (may_follow) {
        XrdCl::DefaultEnv::GetLog()->Info(kLogTopic, "%s is read at %s", url_->path.c_str(), place.url.c_str());
        openAt(place, "");
        return;
    }
    if (place.isFile() && place.may_leave) {
        const std::lock_guard lock(mutex_);
        places_.tryServed(place.cache);
        XrdCl::DefaultEnv::GetLog()->Info(kLogTopic, "%s is not seen here", place.url.c_str());
    }
    tryNext(std::move(answer));
}

void OpenFile::refusedAt(const Place& place, Answer answer) {
    if (place.isCache()) {
        const std::string& name = options().cache_names[place.cache];
        const std::string why = answer.status->ToString();
        const std::lock_guard lock(mutex_);
        if (place.isFile()) {
            places_.tryServed(place.cache);
        } else if (!isFailureOfConnection(*answer.status)) {
            places_.dropCaches();
        }
        XrdCl::DefaultEnv::GetLog()->Info(kLogTopic, "cache %s does not open %s: %s", name.c_str(), url_->path.c_str(),
                                          why.c_str());
    }
    if (place.isCache() && !place.isFile() && isFailureOfCache(*answer.status, place.limit)) {
        Caches::here().failed(place.cache, answer.status->ToString());
    }
    tryNext(std::move(answer));
}

/// Learns which content the opened file has. The library has that from the open, so nothing is asked of the server.
///
/// It answers before its call returns, and holds its lock on the file: so the second of both continues, the answer
/// or we.
void OpenFile::identify(const Place& place, File file, Answer opened) {
    struct Meeting {
        Answer opened;
        Answer stat;
        std::atomic<bool> is_second{false};
    };
    const auto meeting = std::make_shared<Meeting>();
    meeting->opened = std::move(opened);
    const auto goOn = [self = shared_from_this(), place, file, meeting] {
        std::optional<Identity> identity;
        XrdCl::StatInfo* info = nullptr;
        if (meeting->stat.isOk() && meeting->stat.response) {
            meeting->stat.response->Get(info);
        }
        if (info != nullptr) {
            identity = Identity{info->GetSize(), std::nullopt};
            if (!place.isFile()) {
                identity->change_time = info->GetModTime();
            }
        }
        self->settle(place, file, identity, std::move(meeting->opened));
    };
    auto* then = new Then([meeting, goOn](Answer answer) {
        meeting->stat = std::move(answer);
        if (meeting->is_second.exchange(true)) {
            goOn();
        }
    });
    const Status status = file->Stat(false, then, limitAt(place));
    if (!status.IsOK()) {
        delete then;
        goOn();
    } else if (meeting->is_second.exchange(true)) {
        goOn();
    }
}

/// The file is open at a place: requests go there from now on.
void OpenFile::settle(const Place& place, File file, std::optional<Identity> identity, Answer opened) {
    std::vector<Waiting> waiting;
    std::optional<CloseRequest> close_waits;
    XrdCl::ResponseHandler* opener = nullptr;
    File left;
    bool is_another = false;
    {
        const std::lock_guard lock(mutex_);
        const bool is_moving = phase_ == Phase::Moving;
        is_another = is_moving && !(identity && identity_ && identity_->fits(*identity));
        if (!is_another) {
            identity_ = is_moving ? identity_ : identity;
            left = std::exchange(file_, std::move(file));
            place_ = place;
            process_ = getpid();
            phase_ = Phase::Open;
            waiting.swap(waiting_);
            close_waits = std::exchange(close_waits_, std::nullopt);
            opener = std::exchange(opener_, nullptr);
        }
    }
    if (is_another) {
        XrdCl::DefaultEnv::GetLog()->Warning(kLogTopic, "%s has changed while it was read: not read on",
                                             url_->path.c_str());
        giveUp(Answer(Status(XrdCl::stError, XrdCl::errDataError, 0, "the file has changed while it was read")));
        return;
    }
    opened.give(opener);
    sendAgain(std::move(waiting));
    closeWaiting(close_waits);
}

/// There is no place left.
void OpenFile::giveUp(Answer last) {
    std::vector<Waiting> waiting;
    std::optional<CloseRequest> close_waits;
    XrdCl::ResponseHandler* opener = nullptr;
    bool was_opening = false;
    {
        const std::lock_guard lock(mutex_);
        was_opening = phase_ == Phase::Opening;
        phase_ = was_opening ? Phase::Closed : Phase::Open;
        moves_left_ = 0;
        waiting.swap(waiting_);
        close_waits = std::exchange(close_waits_, std::nullopt);
        opener = std::exchange(opener_, nullptr);
    }
    const Status failure = last.status ? *last.status : Status(XrdCl::stError, XrdCl::errInternal);
    if (was_opening) {
        last.give(opener);
    }
    for (const Waiting& item : waiting) {
        Answer(item.failure.value_or(failure)).give(item.request.application);
    }
    closeWaiting(close_waits);
}

bool OpenFile::isOpen() const {
    const std::lock_guard lock(mutex_);
    return phase_ == Phase::Open || (phase_ == Phase::Moving && !close_waits_);
}

bool OpenFile::setProperty(const std::string& name, const std::string& value) {
    File file;
    {
        const std::lock_guard lock(mutex_);
        properties_[name] = value;
        const bool is_ours = place_.isCache() && name == kReadRecovery;
        file = is_ours ? nullptr : file_;
    }
    return !file || file->SetProperty(name, value);
}

bool OpenFile::getProperty(const std::string& name, std::string& value) const {
    File file;
    {
        const std::lock_guard lock(mutex_);
        file = file_;
    }
    if (!file || !file->GetProperty(name, value)) {
        return false;
    }
    // The library names this machine as the server of a local file, and fsspec-xrootd 0.5 queries it for vector limits.
    if (std::string last; name == kDataServer && file->GetProperty(kLastUrl, last) && last.compare(0, 5, "file:") == 0) {
        value.clear();
    }
    return true;
}

void OpenFile::abandon() {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::Open && file_) {
        new File(std::exchange(file_, nullptr));  // leaked: its destructor would send a request
    }
}

}  // namespace forebay
