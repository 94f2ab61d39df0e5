#include "file_plugin.hh"

#include <algorithm>

#include "boundary.hh"

namespace forebay {

using XrdCl::Buffer;
using XrdCl::File;

namespace {

/// Whether an answer has the bytes of a read, up to the end of the file.
template <typename Info>
Request::IsWhole hasBytes(uint64_t offset, uint32_t size) {
    return [=](XrdCl::AnyObject& response, uint64_t file_size) {
        const auto* info = contentOf<Info>(response);
        const uint64_t wanted = std::min<uint64_t>(size, file_size - std::min(offset, file_size));
        return info != nullptr && info->GetLength() >= wanted;
    };
}

}  // namespace

Status FilePlugin::read(Request::Send send, Request::IsWhole is_whole, Handler* handler, Timeout timeout) {
    return guarded([&] { return file_->submit({std::move(send), handler, timeout, true, std::move(is_whole), true}); });
}

Status FilePlugin::ask(Request::Send send, Request::IsWhole is_whole, Handler* handler, Timeout timeout) {
    return guarded([&] { return file_->submit({std::move(send), handler, timeout, true, std::move(is_whole)}); });
}

Status FilePlugin::change(Request::Send send, Handler* handler, Timeout timeout) {
    return guarded([&] { return file_->submit({std::move(send), handler, timeout, false, nullptr}); });
}

Status FilePlugin::Open(const std::string& url, XrdCl::OpenFlags::Flags flags, XrdCl::Access::Mode mode,
                        Handler* handler, Timeout timeout) {
    return guarded([&] { return file_->open(url, flags, mode, handler, timeout); });
}

Status FilePlugin::Close(Handler* handler, Timeout timeout) {
    return guarded([&] { return file_->close(handler, timeout); });
}

Status FilePlugin::Stat(bool force, Handler* handler, Timeout timeout) {
    return ask([=](File& file, Handler* then, Timeout limit) { return file.Stat(force, then, limit); },
               [](XrdCl::AnyObject& response, uint64_t) { return contentOf<XrdCl::StatInfo>(response) != nullptr; },
               handler, timeout);
}

Status FilePlugin::Read(uint64_t offset, uint32_t size, void* buffer, Handler* handler, Timeout timeout) {
    return read([=](File& file, Handler* then, Timeout limit) { return file.Read(offset, size, buffer, then, limit); },
                hasBytes<XrdCl::ChunkInfo>(offset, size), handler, timeout);
}

Status FilePlugin::PgRead(uint64_t offset, uint32_t size, void* buffer, Handler* handler, Timeout timeout) {
    return read(
        [=](File& file, Handler* then, Timeout limit) { return file.PgRead(offset, size, buffer, then, limit); },
        hasBytes<XrdCl::PageInfo>(offset, size), handler, timeout);
}

Status FilePlugin::VectorRead(const XrdCl::ChunkList& chunks, void* buffer, Handler* handler, Timeout timeout) {
    uint64_t wanted = 0;
    for (const XrdCl::ChunkInfo& chunk : chunks) {
        wanted += chunk.length;
    }
    return read([=](File& file, Handler* then, Timeout limit) { return file.VectorRead(chunks, buffer, then, limit); },
                [wanted](XrdCl::AnyObject& response, uint64_t) {
                    const auto* info = contentOf<XrdCl::VectorReadInfo>(response);
                    return info != nullptr && info->GetSize() >= wanted;
                },
                handler, timeout);
}

Status FilePlugin::Write(uint64_t offset, uint32_t size, const void* buffer, Handler* handler, Timeout timeout) {
    return change(
        [=](File& file, Handler* then, Timeout limit) { return file.Write(offset, size, buffer, then, limit); },
        handler, timeout);
}

Status FilePlugin::Write(uint64_t offset, Buffer&& buffer, Handler* handler, Timeout timeout) {
    const auto owned = std::make_shared<Buffer>(std::move(buffer));
    return change(
        [=](File& file, Handler* then, Timeout limit) { return file.Write(offset, std::move(*owned), then, limit); },
        handler, timeout);
}

Status FilePlugin::Write(uint64_t offset, uint32_t size, XrdCl::Optional<uint64_t> from, int descriptor,
                         Handler* handler, Timeout timeout) {
    return change([=](File& file, Handler* then,
                      Timeout limit) { return file.Write(offset, size, from, descriptor, then, limit); },
                  handler, timeout);
}

Status FilePlugin::PgWrite(uint64_t offset, uint32_t size, const void* buffer, std::vector<uint32_t>& sums,
                           Handler* handler, Timeout timeout) {
    return change(
        [=, own = sums](File& file, Handler* then, Timeout limit) mutable {
            return file.PgWrite(offset, size, buffer, own, then, limit);
        },
        handler, timeout);
}

Status FilePlugin::VectorWrite(const XrdCl::ChunkList& chunks, Handler* handler, Timeout timeout) {
    return change([=](File& file, Handler* then, Timeout limit) { return file.VectorWrite(chunks, then, limit); },
                  handler, timeout);
}

Status FilePlugin::WriteV(uint64_t offset, const struct iovec* parts, int count, Handler* handler, Timeout timeout) {
    return change(
        [=](File& file, Handler* then, Timeout limit) { return file.WriteV(offset, parts, count, then, limit); },
        handler, timeout);
}

Status FilePlugin::Sync(Handler* handler, Timeout timeout) {
    return change([](File& file, Handler* then, Timeout limit) { return file.Sync(then, limit); }, handler, timeout);
}

Status FilePlugin::Truncate(uint64_t size, Handler* handler, Timeout timeout) {
    return change([=](File& file, Handler* then, Timeout limit) { return file.Truncate(size, then, limit); }, handler,
                  timeout);
}

Status FilePlugin::Fcntl(const Buffer& argument, Handler* handler, Timeout timeout) {
    const std::string text(argument.GetBuffer(), argument.GetSize());
    return change(
        [text](File& file, Handler* then, Timeout limit) {
            Buffer copy;
            copy.FromString(text);
            return file.Fcntl(copy, then, limit);
        },
        handler, timeout);
}

#if FOREBAY_XROOTD_MAJOR >= 6
Status FilePlugin::Fcntl(XrdCl::QueryCode::Code code, const Buffer& argument, Handler* handler, Timeout timeout) {
    const std::string text(argument.GetBuffer(), argument.GetSize());
    return change(
        [code, text](File& file, Handler* then, Timeout limit) {
            Buffer copy;
            copy.FromString(text);
            return file.Fcntl(code, copy, then, limit);
        },
        handler, timeout);
}
#endif

Status FilePlugin::Visa(Handler* handler, Timeout timeout) {
    return ask([](File& file, Handler* then, Timeout limit) { return file.Visa(then, limit); }, nullptr, handler,
               timeout);
}

bool FilePlugin::IsOpen() const {
    return file_->isOpen();
}

bool FilePlugin::SetProperty(const std::string& name, const std::string& value) {
    return file_->setProperty(name, value);
}

bool FilePlugin::GetProperty(const std::string& name, std::string& value) const {
    return file_->getProperty(name, value);
}

}  // namespace forebay
