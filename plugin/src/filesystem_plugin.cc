#include "filesystem_plugin.hh"

#include "boundary.hh"

namespace forebay {

using XrdCl::FileSystem;

namespace {

/// Puts the names that the application knows into a listing that a cache has made.
bool nameOrigin(const std::string& path, const std::string& address, XrdCl::AnyObject& response) {
    auto* list = contentOf<XrdCl::DirectoryList>(response);
    if (list == nullptr) {
        return false;
    }
    list->SetParentName(path);
    for (auto entry = list->Begin(); entry != list->End(); ++entry) {
        const std::unique_ptr<XrdCl::DirectoryList::ListEntry> theirs(*entry);
        *entry = new XrdCl::DirectoryList::ListEntry(address, theirs->GetName(), theirs->GetStatInfo());
        theirs->SetStatInfo(nullptr);
    }
    return true;
}

bool isStat(XrdCl::AnyObject& response) {
    return contentOf<XrdCl::StatInfo>(response) != nullptr;
}

bool isText(XrdCl::AnyObject& response) {
    const auto* text = contentOf<XrdCl::Buffer>(response);
    return text != nullptr && text->GetSize() != 0 && *text->GetBuffer() != '\0';
}

}  // namespace

FileSystemPlugin::FileSystemPlugin(const std::string& url, Url origin)
    : origin_(std::move(origin)), server_(std::make_shared<FileSystem>(XrdCl::URL(url), false)) {}

Status FileSystemPlugin::ask(const std::string& path, PathQuestion::Ask ask, PathQuestion::Translate translate,
                             Handler* handler, Timeout timeout) {
    return guarded([&] {
        const size_t mark = !path.empty() && path.front() == '*' ? 1 : 0;
        const auto question = std::make_shared<PathQuestion>(origin_, server_, std::move(ask), std::move(translate));
        return question->start(path.substr(0, mark), path.substr(mark), handler, timeout);
    });
}

std::string FileSystemPlugin::address() const {
    return origin_.host + ":" + std::to_string(origin_.port);
}

/// A cache names itself. The application must continue with the origin's name, which leads back to the plug-in.
PathQuestion::Translate FileSystemPlugin::originInLocations() const {
    return [address = address()](XrdCl::AnyObject& response) {
        auto* info = contentOf<XrdCl::LocationInfo>(response);
        if (info == nullptr || info->GetSize() == 0) {
            return false;
        }
        auto* ours = new XrdCl::LocationInfo;
        ours->Add({address, info->Begin()->GetType(), XrdCl::LocationInfo::Read});
        response.Set(static_cast<XrdCl::LocationInfo*>(nullptr));
        delete info;
        response.Set(ours);
        return true;
    };
}

Status FileSystemPlugin::Locate(const std::string& path, XrdCl::OpenFlags::Flags flags, Handler* handler,
                                Timeout timeout) {
    return ask(
        path,
        [flags](FileSystem& server, const std::string& there, Handler* then, Timeout limit) {
            return server.Locate(there, flags, then, limit);
        },
        originInLocations(), handler, timeout);
}

Status FileSystemPlugin::DeepLocate(const std::string& path, XrdCl::OpenFlags::Flags flags, Handler* handler,
                                    Timeout timeout) {
    return ask(
        path,
        [flags](FileSystem& server, const std::string& there, Handler* then, Timeout limit) {
            return server.DeepLocate(there, flags, then, limit);
        },
        originInLocations(), handler, timeout);
}

Status FileSystemPlugin::Stat(const std::string& path, Handler* handler, Timeout timeout) {
    return ask(
        path,
        [](FileSystem& server, const std::string& there, Handler* then, Timeout limit) {
            return server.Stat(there, then, limit);
        },
        isStat, handler, timeout);
}

Status FileSystemPlugin::DirList(const std::string& path, XrdCl::DirListFlags::Flags flags, Handler* handler,
                                 Timeout timeout) {
    // Partial answers cannot be repeated elsewhere, and the library builds names from the server's paths for the
    // others.
    const int whole = XrdCl::DirListFlags::Stat | XrdCl::DirListFlags::Merge | XrdCl::DirListFlags::Cksm;
    if ((static_cast<int>(flags) & ~whole) != 0) {
        return server_->DirList(path, flags, handler, timeout);
    }
    return ask(
        path,
        [flags](FileSystem& server, const std::string& there, Handler* then, Timeout limit) {
            return server.DirList(there, flags, then, limit);
        },
        [path, address = address()](XrdCl::AnyObject& response) { return nameOrigin(path, address, response); }, handler,
        timeout);
}

Status FileSystemPlugin::Query(XrdCl::QueryCode::Code code, const XrdCl::Buffer& argument, Handler* handler,
                               Timeout timeout) {
    if (code != XrdCl::QueryCode::Checksum || argument.GetSize() == 0) {
        return server_->Query(code, argument, handler, timeout);
    }
    return ask(
        std::string(argument.GetBuffer(), argument.GetSize()),
        [code](FileSystem& server, const std::string& there, Handler* then, Timeout limit) {
            XrdCl::Buffer question;
            question.FromString(there);
            return server.Query(code, question, then, limit);
        },
        isText, handler, timeout);
}

Status FileSystemPlugin::Mv(const std::string& from, const std::string& to, Handler* handler, Timeout timeout) {
    return server_->Mv(from, to, handler, timeout);
}

Status FileSystemPlugin::Truncate(const std::string& path, uint64_t size, Handler* handler, Timeout timeout) {
    return server_->Truncate(path, size, handler, timeout);
}

Status FileSystemPlugin::Rm(const std::string& path, Handler* handler, Timeout timeout) {
    return server_->Rm(path, handler, timeout);
}

Status FileSystemPlugin::MkDir(const std::string& path, XrdCl::MkDirFlags::Flags flags, XrdCl::Access::Mode mode,
                               Handler* handler, Timeout timeout) {
    return server_->MkDir(path, flags, mode, handler, timeout);
}

Status FileSystemPlugin::RmDir(const std::string& path, Handler* handler, Timeout timeout) {
    return server_->RmDir(path, handler, timeout);
}

Status FileSystemPlugin::ChMod(const std::string& path, XrdCl::Access::Mode mode, Handler* handler, Timeout timeout) {
    return server_->ChMod(path, mode, handler, timeout);
}

Status FileSystemPlugin::Ping(Handler* handler, Timeout timeout) {
    return server_->Ping(handler, timeout);
}

Status FileSystemPlugin::StatVFS(const std::string& path, Handler* handler, Timeout timeout) {
    return server_->StatVFS(path, handler, timeout);
}

Status FileSystemPlugin::Protocol(Handler* handler, Timeout timeout) {
    return server_->Protocol(handler, timeout);
}

Status FileSystemPlugin::SendInfo(const std::string& info, Handler* handler, Timeout timeout) {
    return server_->SendInfo(info, handler, timeout);
}

Status FileSystemPlugin::Prepare(const std::vector<std::string>& files, XrdCl::PrepareFlags::Flags flags,
                                 uint8_t priority, Handler* handler, Timeout timeout) {
    return server_->Prepare(files, flags, priority, handler, timeout);
}

Status FileSystemPlugin::SetXAttr(const std::string& path, const std::vector<XrdCl::xattr_t>& attributes,
                                  Handler* handler, Timeout timeout) {
    return server_->SetXAttr(path, attributes, handler, timeout);
}

Status FileSystemPlugin::GetXAttr(const std::string& path, const std::vector<std::string>& names, Handler* handler,
                                  Timeout timeout) {
    return server_->GetXAttr(path, names, handler, timeout);
}

Status FileSystemPlugin::DelXAttr(const std::string& path, const std::vector<std::string>& names, Handler* handler,
                                  Timeout timeout) {
    return server_->DelXAttr(path, names, handler, timeout);
}

Status FileSystemPlugin::ListXAttr(const std::string& path, Handler* handler, Timeout timeout) {
    return server_->ListXAttr(path, handler, timeout);
}

bool FileSystemPlugin::SetProperty(const std::string& name, const std::string& value) {
    return server_->SetProperty(name, value);
}

bool FileSystemPlugin::GetProperty(const std::string& name, std::string& value) const {
    return server_->GetProperty(name, value);
}

}  // namespace forebay
