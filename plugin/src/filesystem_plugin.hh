// The application's view of a server, as the client library sees it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "path_question.hh"

namespace forebay {

/// Questions about paths go through the caches; everything else, and every change, goes to the origin as it is.
class FileSystemPlugin final : public XrdCl::FileSystemPlugIn {
  public:
    FileSystemPlugin(const std::string& url, Url origin);

    using Handler = XrdCl::ResponseHandler;

    Status Locate(const std::string& path, XrdCl::OpenFlags::Flags flags, Handler* handler, Timeout timeout) override;
    Status DeepLocate(const std::string& path, XrdCl::OpenFlags::Flags flags, Handler* handler,
                      Timeout timeout) override;
    Status Stat(const std::string& path, Handler* handler, Timeout timeout) override;
    Status DirList(const std::string& path, XrdCl::DirListFlags::Flags flags, Handler* handler,
                   Timeout timeout) override;
    Status Query(XrdCl::QueryCode::Code code, const XrdCl::Buffer& argument, Handler* handler,
                 Timeout timeout) override;

    Status Mv(const std::string& from, const std::string& to, Handler* handler, Timeout timeout) override;
    Status Truncate(const std::string& path, uint64_t size, Handler* handler, Timeout timeout) override;
    Status Rm(const std::string& path, Handler* handler, Timeout timeout) override;
    Status MkDir(const std::string& path, XrdCl::MkDirFlags::Flags flags, XrdCl::Access::Mode mode, Handler* handler,
                 Timeout timeout) override;
    Status RmDir(const std::string& path, Handler* handler, Timeout timeout) override;
    Status ChMod(const std::string& path, XrdCl::Access::Mode mode, Handler* handler, Timeout timeout) override;
    Status Ping(Handler* handler, Timeout timeout) override;
    Status StatVFS(const std::string& path, Handler* handler, Timeout timeout) override;
    Status Protocol(Handler* handler, Timeout timeout) override;
    Status SendInfo(const std::string& info, Handler* handler, Timeout timeout) override;
    Status Prepare(const std::vector<std::string>& files, XrdCl::PrepareFlags::Flags flags, uint8_t priority,
                   Handler* handler, Timeout timeout) override;
    Status SetXAttr(const std::string& path, const std::vector<XrdCl::xattr_t>& attributes, Handler* handler,
                    Timeout timeout) override;
    Status GetXAttr(const std::string& path, const std::vector<std::string>& names, Handler* handler,
                    Timeout timeout) override;
    Status DelXAttr(const std::string& path, const std::vector<std::string>& names, Handler* handler,
                    Timeout timeout) override;
    Status ListXAttr(const std::string& path, Handler* handler, Timeout timeout) override;
    bool SetProperty(const std::string& name, const std::string& value) override;
    bool GetProperty(const std::string& name, std::string& value) const override;

  private:
    Status ask(const std::string& path, PathQuestion::Ask ask, PathQuestion::Translate translate, Handler* handler,
               Timeout timeout);
    std::string address() const;
    PathQuestion::Translate originInLocations() const;

    Url origin_;
    std::shared_ptr<XrdCl::FileSystem> server_;
};

}  // namespace forebay
