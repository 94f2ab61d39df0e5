// The entry point for the client library.
#include <exception>

#include "caches.hh"
#include "file_plugin.hh"
#include "filesystem_plugin.hh"

#pragma GCC visibility push(default)
XrdVERSIONINFO(XrdClGetPlugIn, XrdClForebay)
#pragma GCC visibility pop

    namespace forebay {
    namespace {

    /// Makes a plug-in object for each file and file system of the application that may go through the caches.
    class Factory final : public XrdCl::PlugInFactory {
      public:
        XrdCl::FilePlugIn* CreateFile(const std::string& url) override {
            return isOurs(url) ? new FilePlugin : nullptr;
        }

        XrdCl::FileSystemPlugIn* CreateFileSystem(const std::string& url) override {
            return isOurs(url) ? new FileSystemPlugin(url, *Url::parse(url)) : nullptr;
        }

      private:
        static bool isOurs(const std::string& text) {
            const auto url = Url::parse(text);
            return url && options().covers(*url);
        }
    };

    }  // namespace
}  // namespace forebay

extern "C" __attribute__((visibility("default"))) void* XrdClGetPlugIn(const void*) {
    using forebay::kLogTopic;
    try {
        XrdCl::Log* const log = XrdCl::DefaultEnv::GetLog();
        log->SetTopicName(kLogTopic, "Forebay");
        for (const std::string& complaint : forebay::options().complaints) {
            log->Error(kLogTopic, "%s", complaint.c_str());
        }
        return forebay::options().caches.empty() ? nullptr : new forebay::Factory;
    } catch (const std::exception&) {
        return nullptr;
    }
}
