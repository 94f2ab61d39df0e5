// An answer of the client library on its way to the application.
#pragma once

#include <functional>
#include <memory>

#include "api.hh"

namespace forebay {

/// The arguments of a handler, owned.
struct Answer {
    std::unique_ptr<Status> status;
    std::unique_ptr<XrdCl::AnyObject> response;
    std::unique_ptr<XrdCl::HostList> hosts;

    Answer() = default;
    explicit Answer(const Status& what) : status(new Status(what)) {}

    bool isOk() const { return status && status->IsOK(); }

    /// Hands it to the application, which may have none that waits.
    void give(XrdCl::ResponseHandler* application) {
        if (application != nullptr) {
            application->HandleResponseWithHosts(status.release(), response.release(), hosts.release());
        }
    }
};

/// The object in an answer; null when there is none, or another one.
template <typename Type>
Type* contentOf(XrdCl::AnyObject& response) {
    Type* content = nullptr;
    response.Get(content);
    return content;
}

/// A handler that calls a function once and ends. It lets no exception out: a request without an answer would be waited
/// for for ever.
class Then final : public XrdCl::ResponseHandler {
  public:
    using Function = std::function<void(Answer)>;

    explicit Then(Function function) : function_(std::move(function)) {}

    void HandleResponseWithHosts(Status* status, XrdCl::AnyObject* response, XrdCl::HostList* hosts) noexcept override {
        Answer answer;
        answer.status.reset(status);
        answer.response.reset(response);
        answer.hosts.reset(hosts);
        if (!answer.status) {
            answer.status = std::make_unique<Status>(XrdCl::stError, XrdCl::errInvalidResponse, 0, "no status");
        }
        const Function function = std::move(function_);
        delete this;
        function(std::move(answer));
    }

    void HandleResponse(Status* status, XrdCl::AnyObject* response) noexcept override {
        HandleResponseWithHosts(status, response, nullptr);
    }

  private:
    Function function_;
};

}  // namespace forebay
