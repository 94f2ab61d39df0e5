#include <gtest/gtest.h>

#include <map>

#include "options.hh"
#include "places.hh"

using forebay::Options;
using forebay::Place;
using forebay::Places;
using forebay::Url;

namespace {

Options read(const std::map<std::string, std::string>& environment) {
    return Options::read([&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? nullptr : found->second.c_str();
    });
}

}  // namespace

TEST(Options, NameCaches) {
    const Options options = read({{"FOREBAY", "root://c1:1095, roots://C2// c3:7,[::1]:8"}});
    EXPECT_EQ(options.cache_names, (std::vector<std::string>{"c1:1095", "c2:1094", "c3:7", "[::1]:8"}));
    EXPECT_EQ(options.caches[1].server(), "roots://C2:1094");
    EXPECT_TRUE(options.complaints.empty());
}

TEST(Options, TakeACacheOnce) {
    EXPECT_EQ(read({{"FOREBAY", "c1,root://c1:1094"}}).caches.size(), 1u);
}

TEST(Options, ComplainOfWhatIsNoCache) {
    const Options options = read({{"FOREBAY", "https://c1,root://c2//path,c3:x,c4"}});
    EXPECT_EQ(options.cache_names, (std::vector<std::string>{"c4:1094"}));
    EXPECT_EQ(options.complaints.size(), 3u);
    EXPECT_EQ(read({}).complaints.size(), 1u);
}

TEST(Options, BoundTimes) {
    EXPECT_EQ(read({{"FOREBAY_CONNECT_TIMEOUT", "7"}}).connect_timeout.count(), 7);
    EXPECT_EQ(read({{"FOREBAY_OPEN_TIMEOUT", "3600"}}).open_timeout.count(), 3600);
    for (const char* text : {"0", "-1", "3601", "5s", "x"}) {
        const Options options = read({{"FOREBAY", "c"}, {"FOREBAY_OPEN_TIMEOUT", text}});
        EXPECT_EQ(options.open_timeout.count(), 60) << text;
        EXPECT_EQ(options.complaints.size(), 1u) << text;
    }
}

TEST(Options, CoverOriginsAndNeitherCachesNorExcludedOnes) {
    const Options options = read({{"FOREBAY", "cache:1094"}, {"FOREBAY_EXCLUDE", "near.example.org"}});
    EXPECT_TRUE(options.covers(*Url::parse("root://origin//a")));
    EXPECT_TRUE(options.covers(*Url::parse("root://cache:1095//a")));
    EXPECT_FALSE(options.covers(*Url::parse("root://CACHE//root://origin//a")));
    EXPECT_FALSE(options.covers(*Url::parse("root://s1.near.example.org//a")));
}

TEST(Places, AreTwoCachesAndTheOrigin) {
    Places places = Places::of(read({{"FOREBAY", "c1,c2,c3"}}), *Url::parse("root://origin//a"));
    Place first, second, third, fourth;
    ASSERT_TRUE(places.next(first) && places.next(second) && places.next(third));
    EXPECT_TRUE(first.isCache() && second.isCache() && first.cache != second.cache);
    EXPECT_FALSE(third.isCache());
    EXPECT_FALSE(places.next(fourth));
}

TEST(Places, AreTheOriginAfterARefusal) {
    Places places = Places::of(read({{"FOREBAY", "c1,c2"}}), *Url::parse("root://origin//a"));
    Place place;
    places.next(place);
    places.dropCaches();
    ASSERT_TRUE(places.next(place));
    EXPECT_FALSE(place.isCache());
}

TEST(Places, AreTheSameCacheAfterALocalFailure) {
    Places places = Places::servedBy(3);
    Place place;
    ASSERT_TRUE(places.next(place));
    EXPECT_TRUE(place.isCache() && place.cache == 3 && !place.may_leave);
    ASSERT_TRUE(places.next(place));
    EXPECT_FALSE(place.isCache());
}
