#include "path_question.hh"

#include <algorithm>

#include "caches.hh"
#include "forwarding.hh"

namespace forebay {

Status PathQuestion::start(const std::string& mark, const std::string& path, XrdCl::ResponseHandler* application,
                           Timeout timeout) {
    mark_ = mark;
    path_ = path;
    application_ = application;
    timeout_ = timeout;
    Url file = origin_;
    const size_t question = path.find('?');
    file.path = path.substr(0, question);
    file.query = question == std::string::npos ? "" : path.substr(question + 1);
    is_secret_ = !file.mayBeSentTo(Url());
    const bool is_covered =
        !file.path.empty() && file.path.front() == '/' && !options().exclusions.coverPath(file.path);
    if (!is_covered) {
        return ask_(*server_, mark_ + path_, application_, timeout_);
    }
    places_ = Places::of(options(), file);
    tryNext();
    return Status();
}

void PathQuestion::tryNext() {
    Place place;
    places_.next(place);
    if (place.isCache()) {
        const auto self = shared_from_this();
        Caches::here().whenKnown(place.cache, [self, cache = place.cache](bool is_usable, const std::string&) {
            if (is_usable) {
                self->askCache(cache);
            } else {
                self->tryNext();
            }
        });
        return;
    }
    auto* then = new Then([self = shared_from_this()](Answer answer) { answer.give(self->application_); });
    const Status status = ask_(*server_, mark_ + path_, then, timeout_);
    if (!status.IsOK()) {
        delete then;
        Answer(status).give(application_);
    }
}

void PathQuestion::askCache(size_t cache) {
    const auto server = std::make_shared<XrdCl::FileSystem>(XrdCl::URL(options().caches[cache].server()), false);
    if (is_secret_) {
        server->SetProperty("FollowRedirects", "false");  // which may lead to a server without encryption
    }
    const auto ours = static_cast<Timeout>(options().open_timeout.count());
    const Timeout limit = timeout_ == 0 ? ours : std::max<Timeout>(1, std::min<Timeout>(ours, timeout_ / 2));
    const std::chrono::seconds given(limit);
    auto* then = new Then([self = shared_from_this(), server, cache, given](Answer answer) {
        self->answeredBy(cache, given, std::move(answer));
    });
    const Status status = ask_(*server, mark_ + forwardedPath(origin_, path_), then, limit);
    if (!status.IsOK()) {
        delete then;
        answeredBy(cache, given, Answer(status));
    }
}

void PathQuestion::answeredBy(size_t cache, std::chrono::seconds limit, Answer answer) {
    if (answer.isOk() && !(answer.response && translate_(*answer.response))) {
        answer = Answer(Status(XrdCl::stError, XrdCl::errInvalidResponse, 0, "the answer is empty"));
    }
    if (answer.isOk()) {
        Caches::here().answered(cache);
        answer.give(application_);
        return;
    }
    const std::string why = answer.status->ToString();
    if (isFailureOfCache(*answer.status, limit)) {
        Caches::here().failed(cache, why);
    } else {
        XrdCl::DefaultEnv::GetLog()->Info(kLogTopic, "cache %s does not answer about %s: %s",
                                          options().cache_names[cache].c_str(), path_.c_str(), why.c_str());
    }
    if (!isFailureOfConnection(*answer.status)) {
        places_.dropCaches();
    }
    tryNext();
}

}  // namespace forebay
