#include <gtest/gtest.h>

#include "url.hh"

using forebay::Url;

TEST(Url, IsTakenApart) {
    const auto url = Url::parse("roots://someone:word@Origin.example.org:1095//store/a?b=c&d=root://e//f");
    ASSERT_TRUE(url);
    EXPECT_EQ(url->scheme, "roots");
    EXPECT_EQ(url->user, "someone");
    EXPECT_EQ(url->host, "Origin.example.org");
    EXPECT_EQ(url->port, 1095);
    EXPECT_EQ(url->path, "/store/a");
    EXPECT_EQ(url->query, "b=c&d=root://e//f");
    EXPECT_EQ(url->address(), "origin.example.org:1095");
    EXPECT_EQ(url->server(), "roots://Origin.example.org:1095");
    EXPECT_TRUE(url->isSecure());
}

TEST(Url, HasThePortOfXRootDUnlessItSaysAnother) {
    EXPECT_EQ(Url::parse("root://origin//a")->port, 1094);
    EXPECT_EQ(Url::parse("xroot://[2001:db8::1]//a")->port, 1094);
    EXPECT_EQ(Url::parse("xroots://[2001:db8::1]:7//a")->port, 7);
    EXPECT_EQ(Url::parse("root://[::1]:7//a")->host, "[::1]");
}

TEST(Url, MayEndAnywhere) {
    EXPECT_EQ(Url::parse("root://origin")->path, "");
    EXPECT_EQ(Url::parse("root://origin/")->path, "");
    EXPECT_EQ(Url::parse("root://origin/a")->path, "a");
    EXPECT_EQ(Url::parse("root://origin?a=b")->query, "a=b");
}

TEST(Url, OfAnotherKindIsNone) {
    for (const char* text : {"", "/store/a", "file://localhost/a", "https://origin/a", "rootx://origin//a", "root:/a",
                             "root://", "root:///a", "root://origin:0//a", "root://origin:65536//a", "root://o:1x//a",
                             "root://[::1//a", "root://[::1]x//a"}) {
        EXPECT_FALSE(Url::parse(text)) << text;
    }
}

TEST(Url, KnowsItsParameters) {
    const auto url = Url::parse("root://origin//a?authz=x&tpc.key=1");
    EXPECT_TRUE(url->hasParameter("tpc."));
    EXPECT_TRUE(url->hasParameter("authz="));
    EXPECT_FALSE(url->hasParameter("key"));
}
