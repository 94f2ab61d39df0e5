// An open file of the application, wherever it is read at the moment.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answer.hh"
#include "fork_safe_mutex.hh"
#include "places.hh"

namespace forebay {

/// One request of the application, kept until it is answered.
struct Request {
    using Send = std::function<Status(XrdCl::File&, XrdCl::ResponseHandler*, Timeout)>;
    using IsWhole = std::function<bool(XrdCl::AnyObject&, uint64_t file_size)>;

    Send send;
    XrdCl::ResponseHandler* application = nullptr;
    Timeout timeout = 0;
    bool is_read = true;  ///< changes nothing, so it can be sent again elsewhere
    IsWhole is_whole;      ///< whether an answer of a cache has what it should; not asked of others
    bool is_of_bytes = false;
};

/// Opens a file at the first place that has it, and continues at another place if that one fails during the reads.
///
/// Requests of the application go to the library's file at the present place. One that fails there starts the move; it
/// waits with all that come while the move lasts, and they are sent again at the new place, or get their errors when
/// there is none. Each is answered once. The file there must be the same by size, and by change time where that is
/// known.
class OpenFile : public std::enable_shared_from_this<OpenFile> {
  public:
    Status open(const std::string& url, XrdCl::OpenFlags::Flags flags, XrdCl::Access::Mode mode,
                XrdCl::ResponseHandler* application, Timeout timeout);
    Status close(XrdCl::ResponseHandler* application, Timeout timeout);
    Status submit(Request request);

    bool isOpen() const;
    bool setProperty(const std::string& name, const std::string& value);
    bool getProperty(const std::string& name, std::string& value) const;

    /// The application's file ends. One that is open by then was left so because the library has stopped: it stays as
    /// it is.
    void abandon();

  private:
    using Clock = std::chrono::steady_clock;
    using File = std::shared_ptr<XrdCl::File>;

    enum class Phase { Closed, Opening, Open, Moving, Closing };

    /// Identifies a version of a file.
    struct Identity {
        uint64_t size = 0;
        std::optional<uint64_t> change_time;  ///< not known of files that we read ourselves

        bool fits(const Identity& other) const {
            return size == other.size && (!change_time || !other.change_time || *change_time == *other.change_time);
        }
    };

    struct Waiting {
        Request request;
        std::optional<Status> failure;  ///< its error at the previous place
    };

    struct CloseRequest {
        XrdCl::ResponseHandler* application = nullptr;
        Timeout timeout = 0;
    };

    void tryNext(Answer last);
    void openAt(Place place, const std::string& token);
    std::string urlAt(const Place& place, const std::string& token) const;
    Timeout limitAt(const Place& place) const;
    File makeFile(const Place& place) const;
    void followFromNowOn(XrdCl::File& file) const;
    void openedAt(const Place& place, File file, Answer answer);
    void redirectedAt(Place place, Answer answer);
    void refusedAt(const Place& place, Answer answer);
    void identify(const Place& place, File file, Answer opened);
    void settle(const Place& place, File file, std::optional<Identity> identity, Answer opened);
    void giveUp(Answer last);

    std::optional<Status> dispatch(const File& file, const Place& place, Request request);
    std::optional<Status> faultOf(const File& file, const Place& place, const Request& request, const Answer& answer);
    void failedAt(const File& file, Request request, Answer answer);
    void forgetParent();
    void sendAgain(std::vector<Waiting> waiting);
    void closeWaiting(const std::optional<CloseRequest>& request);
    void closed();

    mutable ForkSafeMutex mutex_;
    Phase phase_ = Phase::Closed;
    Place place_;
    Places places_ = Places::origin();
    File file_;
    std::vector<Waiting> waiting_;
    std::optional<CloseRequest> close_waits_;  ///< until the move is over
    std::optional<Identity> identity_;
    int moves_left_ = 0;
    pid_t process_ = 0;

    std::string url_text_;
    std::optional<Url> url_;  ///< when it may be read through caches
    XrdCl::OpenFlags::Flags flags_ = XrdCl::OpenFlags::None;
    XrdCl::Access::Mode mode_ = XrdCl::Access::None;
    XrdCl::ResponseHandler* opener_ = nullptr;  ///< the handler that waits for the open
    std::optional<Clock::time_point> deadline_;
    std::map<std::string, std::string> properties_;
};

}  // namespace forebay
