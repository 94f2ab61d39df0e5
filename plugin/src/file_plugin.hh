// The application's file, as the client library sees it.
#pragma once

#include <memory>
#include <string>

#include "open_file.hh"

namespace forebay {

/// Hands every operation to the open file, which outlives it while requests are under way.
class FilePlugin final : public XrdCl::FilePlugIn {
  public:
    FilePlugin() : file_(std::make_shared<OpenFile>()) {}
    ~FilePlugin() override { file_->abandon(); }

    using Handler = XrdCl::ResponseHandler;

    Status Open(const std::string& url, XrdCl::OpenFlags::Flags flags, XrdCl::Access::Mode mode, Handler* handler,
                Timeout timeout) override;
    Status Close(Handler* handler, Timeout timeout) override;
    Status Stat(bool force, Handler* handler, Timeout timeout) override;
    Status Read(uint64_t offset, uint32_t size, void* buffer, Handler* handler, Timeout timeout) override;
    Status PgRead(uint64_t offset, uint32_t size, void* buffer, Handler* handler, Timeout timeout) override;
    Status VectorRead(const XrdCl::ChunkList& chunks, void* buffer, Handler* handler, Timeout timeout) override;
    Status Write(uint64_t offset, uint32_t size, const void* buffer, Handler* handler, Timeout timeout) override;
    Status Write(uint64_t offset, XrdCl::Buffer&& buffer, Handler* handler, Timeout timeout) override;
    Status Write(uint64_t offset, uint32_t size, XrdCl::Optional<uint64_t> from, int descriptor, Handler* handler,
                 Timeout timeout) override;
    Status PgWrite(uint64_t offset, uint32_t size, const void* buffer, std::vector<uint32_t>& sums, Handler* handler,
                   Timeout timeout) override;
    Status VectorWrite(const XrdCl::ChunkList& chunks, Handler* handler, Timeout timeout) override;
    Status WriteV(uint64_t offset, const struct iovec* parts, int count, Handler* handler, Timeout timeout) override;
    Status Sync(Handler* handler, Timeout timeout) override;
    Status Truncate(uint64_t size, Handler* handler, Timeout timeout) override;
    Status Fcntl(const XrdCl::Buffer& argument, Handler* handler, Timeout timeout) override;
    Status Visa(Handler* handler, Timeout timeout) override;
#if FOREBAY_XROOTD_MAJOR >= 6
    Status Fcntl(XrdCl::QueryCode::Code code, const XrdCl::Buffer& argument, Handler* handler,
                 Timeout timeout) override;
#endif
    bool IsOpen() const override;
    bool SetProperty(const std::string& name, const std::string& value) override;
    bool GetProperty(const std::string& name, std::string& value) const override;

  private:
    Status read(Request::Send send, Request::IsWhole is_whole, Handler* handler, Timeout timeout);
    Status ask(Request::Send send, Request::IsWhole is_whole, Handler* handler, Timeout timeout);
    Status change(Request::Send send, Handler* handler, Timeout timeout);

    std::shared_ptr<OpenFile> file_;
};

}  // namespace forebay
