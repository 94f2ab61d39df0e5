#include <gtest/gtest.h>

#include "forwarding.hh"

using forebay::forwardedPath;
using forebay::forwardedUrl;
using forebay::isForwardable;
using forebay::redirectedUrl;
using forebay::Url;

namespace {

std::string through(const char* cache, const char* origin, const char* parameters) {
    return forwardedUrl(*Url::parse(cache), *Url::parse(origin), parameters);
}

}  // namespace

TEST(Forwarding, PutsTheWholeUrlBehindTheCache) {
    EXPECT_EQ(through("root://cache", "root://origin//store/a", ""), "root://cache:1094//root://origin:1094//store/a");
    EXPECT_EQ(through("roots://cache:7", "roots://me@[::1]:8//store/a?authz=x&y", ""),
              "roots://cache:7//roots://me@[::1]:8//store/a?authz=x&y");
}

TEST(Forwarding, KeepsTheQueryAndAddsToIt) {
    EXPECT_EQ(through("root://c", "xroot://o//a", "p=1"), "root://c:1094//xroot://o:1094//a?p=1");
    EXPECT_EQ(through("root://c", "root://o//a?q=2", "p=1"), "root://c:1094//root://o:1094//a?q=2&p=1");
}

TEST(Forwarding, LeavesThePasswordBehind) {
    EXPECT_EQ(through("root://c", "root://me:secret@o//a", "").find("secret"), std::string::npos);
}

TEST(Forwarding, NamesPathsOfAServer) {
    EXPECT_EQ(forwardedPath(*Url::parse("root://origin"), "/store?x=1"), "/root://origin:1094//store?x=1");
}

TEST(Forwarding, IsSentToTheSameFileByARedirectWithoutAPath) {
    const std::string asked = "root://c:1//root://o:2//a?authz=x";
    EXPECT_EQ(redirectedUrl("root://d:3/?xrdcl.requuid=1&", asked), "root://d:3//root://o:2//a?authz=x");
    EXPECT_EQ(redirectedUrl("roots://d:3/", asked), "roots://d:3//root://o:2//a?authz=x");
    EXPECT_EQ(redirectedUrl("root://d:3/?org=y&xrdcl.requuid=1&z", asked), "root://d:3//root://o:2//a?authz=x&org=y&z");
    EXPECT_EQ(redirectedUrl("root://d:3/?org=y", "root://c:1//a"), "root://d:3//a?org=y");
}

TEST(Forwarding, IsSentWhereARedirectSays) {
    for (const char* redirect : {"root://d:3//b?y", "file://localhost/a", "https://d/a"}) {
        EXPECT_EQ(redirectedUrl(redirect, "root://c:1//a?x"), redirect);
    }
}

TEST(Forwarding, LeavesAloneWhatNamesServersOfItsOwn) {
    EXPECT_TRUE(isForwardable(*Url::parse("root://o//store/a.root?authz=x")));
    for (const char* url : {"root://o", "root://o/relative", "root://o//a.meta4", "root://o//a.metalink?x=1",
                            "root://o//a?tpc.key=1&tpc.dst=b", "root://o//a?x=1&tpc.stage=copy"}) {
        EXPECT_FALSE(isForwardable(*Url::parse(url))) << url;
    }
}
