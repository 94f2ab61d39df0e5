#include <gtest/gtest.h>

#include "exclusions.hh"

using forebay::Exclusions;

TEST(Exclusions, OfHostsKeepToWholeNames) {
    const Exclusions exclusions("example.org, 10.1.*\tlocal:1095");
    EXPECT_TRUE(exclusions.coverServer("example.org:1094"));
    EXPECT_TRUE(exclusions.coverServer("a.b.example.org:1094"));
    EXPECT_FALSE(exclusions.coverServer("badexample.org:1094"));
    EXPECT_FALSE(exclusions.coverServer("example.org.net:1094"));
    EXPECT_TRUE(exclusions.coverServer("10.1.2.3:1094"));
    EXPECT_FALSE(exclusions.coverServer("10.11.2.3:1094"));
    EXPECT_TRUE(exclusions.coverServer("local:1095"));
    EXPECT_FALSE(exclusions.coverServer("local:1094"));
}

TEST(Exclusions, OfHostsAreSpelledInAnyCase) {
    EXPECT_TRUE(Exclusions("Example.ORG").coverServer("a.example.org:1094"));
}

TEST(Exclusions, OfPathsKeepToWholeNames) {
    const Exclusions exclusions("/store/temp,/store/*/scratch/");
    EXPECT_TRUE(exclusions.coverPath("/store/temp"));
    EXPECT_TRUE(exclusions.coverPath("//store//temp/a"));
    EXPECT_FALSE(exclusions.coverPath("/store/temporary"));
    EXPECT_TRUE(exclusions.coverPath("/store/user/scratch/a"));
    EXPECT_FALSE(exclusions.coverPath("/store/user/a"));
    EXPECT_FALSE(exclusions.coverServer("store:1094"));
}

TEST(Exclusions, OfTheRootAreAll) {
    EXPECT_TRUE(Exclusions("/").coverPath("/store/a"));
}

TEST(Exclusions, MayBeNone) {
    for (const char* text : {"", " , ,", "\n"}) {
        EXPECT_FALSE(Exclusions(text).coverServer("a:1094"));
        EXPECT_FALSE(Exclusions(text).coverPath("/a"));
    }
}

TEST(Exclusions, TakeNoLongerForManyStars) {
    const Exclusions exclusions("/a*a*a*a*a*a*a*a*a*a*a*a*b");
    EXPECT_FALSE(exclusions.coverPath("/" + std::string(20000, 'a')));
}
