#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>

#include "probe.hh"

using forebay::kNoToken;
using forebay::ProbeReader;
using forebay::readProbe;

namespace {

const std::string kToken = "0123456789abcdef0123456789abcdef";

class Probe : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = (std::filesystem::temp_directory_path() / "forebay-probe-XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    std::string write(const std::string& name, const std::string& content) const {
        std::ofstream(directory_ + name) << content;
        return directory_ + name;
    }

    std::string directory_;
};

}  // namespace

TEST_F(Probe, IsRead) {
    EXPECT_EQ(readProbe(write("/.forebay-probe", kToken + "\n")), kToken);
    EXPECT_EQ(readProbe(write("/.forebay-probe", kToken)), kToken);
}

TEST_F(Probe, TellsNothingOfOtherFiles) {
    EXPECT_EQ(readProbe(write("/secret", kToken)), kNoToken);
    EXPECT_EQ(readProbe(write("/x.forebay-probe", kToken)), kNoToken);
    EXPECT_EQ(readProbe(write("/.forebay-probe", kToken + "0")), kNoToken);
    EXPECT_EQ(readProbe(write("/.forebay-probe", kToken + "\nmore")), kNoToken);
    EXPECT_EQ(readProbe(write("/.forebay-probe", "short")), kNoToken);
    EXPECT_EQ(readProbe(directory_ + "/absent/.forebay-probe"), kNoToken);
    EXPECT_EQ(readProbe(""), kNoToken);
}

TEST_F(Probe, IsNoPipeThatIsWaitedFor) {
    const std::string path = directory_ + "/.forebay-probe";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(readProbe(path), kNoToken);
}

TEST(ProbeReader, IsNotHeldUpByAFileSystemThatHangs) {
    const auto hang = std::make_shared<std::promise<std::string>>();
    const auto begun = std::make_shared<std::atomic<int>>(0);
    ProbeReader reader([hang, begun](const std::string&) {
        ++*begun;
        return hang->get_future().get();
    });
    EXPECT_EQ(reader.token("/s/.forebay-probe", std::chrono::milliseconds(1)), kNoToken);
    EXPECT_EQ(reader.token("/s/.forebay-probe", std::chrono::milliseconds(1)), kNoToken);
    hang->set_value(kToken);
    EXPECT_EQ(reader.token("/s/.forebay-probe", std::chrono::minutes(1)), kToken);
    EXPECT_EQ(begun->load(), 1);
}
