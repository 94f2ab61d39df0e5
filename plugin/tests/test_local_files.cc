#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "local_files.hh"

using forebay::Directories;
using forebay::localFile;
using forebay::parseDirectories;

namespace {

/// A store, a file outside of it, and links between them.
class LocalFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "forebay-local-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        base_ = std::filesystem::canonical(name).string();
        for (const char* directory : {"/store/sub", "/store-2", "/outside"}) {
            std::filesystem::create_directories(base_ + directory);
        }
        for (const char* file : {"/store/sub/file", "/store-2/file", "/outside/secret"}) {
            std::ofstream(base_ + file) << "content";
        }
        std::filesystem::create_symlink("../outside/secret", base_ + "/store/link");
        std::filesystem::create_symlink(base_ + "/outside", base_ + "/store/directory");
        std::filesystem::create_symlink("sub/file", base_ + "/store/inside");
        std::filesystem::create_symlink(base_ + "/store", base_ + "/mounted");
        ASSERT_EQ(mkfifo((base_ + "/store/pipe").c_str(), 0600), 0);
    }
    void TearDown() override { std::filesystem::remove_all(base_); }

    std::string url(const std::string& path) const { return "file://localhost" + base_ + path; }
    std::string found(const std::string& path) const { return localFile(url(path), {base_ + "/store"}); }

    std::string base_;
};

}  // namespace

TEST_F(LocalFiles, AreOpenedBelowTheAnnouncedDirectory) {
    EXPECT_EQ(found("/store/sub/file"), url("/store/sub/file"));
    EXPECT_EQ(found("/store/sub/file?a=b"), url("/store/sub/file"));
    EXPECT_EQ(found("/store/sub/../sub//file"), url("/store/sub/file"));
}

TEST_F(LocalFiles, AreNamedWithoutTheirLinks) {
    EXPECT_EQ(found("/store/inside"), url("/store/sub/file"));
    EXPECT_EQ(localFile(url("/mounted/sub/file"), {base_ + "/mounted"}), url("/store/sub/file"));
}

TEST_F(LocalFiles, AreNotOpenedElsewhere) {
    for (const char* path : {"/outside/secret", "/store/../outside/secret", "/store-2/file", "/store/link",
                             "/store/directory/secret", "/store", "/store/", "/store/absent"}) {
        EXPECT_EQ(found(path), "") << path;
    }
    EXPECT_EQ(localFile(url("/store/sub/file"), {}), "");
    EXPECT_EQ(localFile(url("/store/sub/file"), {"/"}), "");
    EXPECT_EQ(localFile(url("/store/sub/file"), {""}), "");
    EXPECT_EQ(localFile("file://elsewhere" + base_ + "/store/sub/file", {base_}), "");
    EXPECT_EQ(localFile("", {base_}), "");
}

TEST_F(LocalFiles, AreRegularFiles) {
    EXPECT_EQ(found("/store/pipe"), "");
    EXPECT_EQ(found("/store/sub"), "");
}

TEST_F(LocalFiles, MayLieInSeveralDirectories) {
    const Directories both{base_ + "/store", base_ + "/store-2"};
    EXPECT_EQ(localFile(url("/store-2/file"), both), url("/store-2/file"));
}

TEST(Directories, AreAbsolutePathsBetweenColons) {
    EXPECT_EQ(parseDirectories("/a:/b c"), (Directories{"/a", "/b c"}));
    EXPECT_EQ(parseDirectories(":/a::"), (Directories{"/a"}));
    EXPECT_EQ(parseDirectories("forebay.directories"), Directories{});
    EXPECT_EQ(parseDirectories(""), Directories{});
}
