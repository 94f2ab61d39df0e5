#include <gtest/gtest.h>

#include "backoff.hh"

using forebay::Backoff;
using std::chrono::seconds;

namespace {

const Backoff::Clock::time_point kStart{seconds(1000)};

}  // namespace

TEST(Backoff, BeginsOver) {
    EXPECT_TRUE(Backoff().isOver(kStart));
}

TEST(Backoff, DoublesUpToItsLimit) {
    Backoff backoff;
    auto now = kStart;
    for (const int length : {30, 60, 120, 240, 480, 600, 600}) {
        backoff.fail(now);
        EXPECT_FALSE(backoff.isOver(now + seconds(length) - seconds(1))) << length;
        now += seconds(length);
        EXPECT_TRUE(backoff.isOver(now)) << length;
    }
}

TEST(Backoff, TakesFailuresAtOneTimeForOne) {
    Backoff backoff;
    for (int failure = 0; failure < 10; ++failure) {
        backoff.fail(kStart + seconds(failure));
    }
    EXPECT_TRUE(backoff.isOver(kStart + seconds(30)));
}

TEST(Backoff, BeginsAnewAfterAnAnswer) {
    Backoff backoff;
    backoff.fail(kStart);
    backoff.fail(kStart + seconds(30));
    backoff.succeed();
    backoff.fail(kStart + seconds(100));
    EXPECT_TRUE(backoff.isOver(kStart + seconds(130)));
}
