#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous.hh"

using forebay::rendezvousOrder;

namespace {

constexpr int kFiles = 3000;

std::string file(int number) {
    return "origin:1094//store/run/" + std::to_string(number) + ".root";
}

}  // namespace

TEST(Rendezvous, SpreadsFilesEvenly) {
    const std::vector<std::string> caches{"c1:1094", "c2:1094", "c3:1094"};
    std::vector<int> counts(caches.size());
    for (int number = 0; number < kFiles; ++number) {
        ++counts[rendezvousOrder(caches, file(number)).front()];
    }
    for (const int count : counts) {
        EXPECT_NEAR(count, kFiles / 3, 150);
    }
}

TEST(Rendezvous, DoesNotDependOnTheOrderOfTheList) {
    const std::vector<std::string> one{"c1:1094", "c2:1094", "c3:1094"};
    const std::vector<std::string> other{"c3:1094", "c1:1094", "c2:1094"};
    for (int number = 0; number < 100; ++number) {
        EXPECT_EQ(one[rendezvousOrder(one, file(number)).front()], other[rendezvousOrder(other, file(number)).front()]);
    }
}

TEST(Rendezvous, MovesOnlyFilesOfTheCacheThatGoes) {
    const std::vector<std::string> all{"c1:1094", "c2:1094", "c3:1094"};
    const std::vector<std::string> rest{"c1:1094", "c3:1094"};
    for (int number = 0; number < 500; ++number) {
        const auto order = rendezvousOrder(all, file(number));
        const size_t expected = order[0] == 1 ? order[1] : order[0];
        EXPECT_EQ(rest[rendezvousOrder(rest, file(number)).front()], all[expected]);
    }
}

TEST(Rendezvous, NamesEachCacheOnce) {
    auto order = rendezvousOrder({"a", "b", "c", "d"}, "f");
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, (std::vector<size_t>{0, 1, 2, 3}));
    EXPECT_TRUE(rendezvousOrder({}, "f").empty());
}
