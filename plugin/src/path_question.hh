// A question about a path: asked of a cache first, of the origin when no cache answers it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "answer.hh"
#include "places.hh"

namespace forebay {

/// One question of the application on its way from place to place.
class PathQuestion : public std::enable_shared_from_this<PathQuestion> {
  public:
    using Server = std::shared_ptr<XrdCl::FileSystem>;

    /// Asks a server about a path.
    using Ask = std::function<Status(XrdCl::FileSystem&, const std::string&, XrdCl::ResponseHandler*, Timeout)>;

    /// Turns a cache's answer about a forwarded path into the origin's answer about its path. False for an empty
    /// answer.
    using Translate = std::function<bool(XrdCl::AnyObject&)>;

    PathQuestion(Url origin, Server server, Ask ask, Translate translate)
        : origin_(std::move(origin)),
          server_(std::move(server)),
          ask_(std::move(ask)),
          translate_(std::move(translate)) {}

    /// Asks about `path`, which has `mark` before it in the request (an asterisk, of some). The handler is called once.
    Status start(const std::string& mark, const std::string& path, XrdCl::ResponseHandler* application,
                 Timeout timeout);

  private:
    void tryNext();
    void askCache(size_t cache);
    void answeredBy(size_t cache, std::chrono::seconds limit, Answer answer);

    Url origin_;
    Server server_;
    Ask ask_;
    Translate translate_;
    Places places_ = Places::origin();
    bool is_secret_ = false;  ///< whether the path has parameters that must not be sent in clear
    std::string mark_;
    std::string path_;
    XrdCl::ResponseHandler* application_ = nullptr;
    Timeout timeout_ = 0;
};

}  // namespace forebay
