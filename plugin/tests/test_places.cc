#include <gtest/gtest.h>

#include "places.hh"

using forebay::Options;
using forebay::Place;
using forebay::Places;
using forebay::Url;

namespace {

/// The caches at which a file is tried.
std::vector<std::string> caches(const char* names, const char* url) {
    const Options options = Options::read([names](const char* name) -> const char* {
        return std::string_view(name) == "FOREBAY" ? names : nullptr;
    });
    Places places = Places::of(options, *Url::parse(url));
    std::vector<std::string> tried;
    Place place;
    while (places.next(place)) {
        if (place.isCache()) {
            tried.push_back(options.caches[place.cache].server());
        }
    }
    return tried;
}

using Names = std::vector<std::string>;

}  // namespace

TEST(Places, OfATokenForAnEncryptedServerAreEncryptedToo) {
    for (const char* parameters :
         {"authz=Bearer%20abc", "a=1&access_token=abc", "xrd.gsiusrpxy=/tmp/x509up", "anything"}) {
        const std::string url = std::string("roots://origin//a?") + parameters;
        EXPECT_EQ(caches("root://clear", url.c_str()), Names{}) << parameters;
        EXPECT_EQ(caches("root://clear,roots://tls", url.c_str()), Names{"roots://tls:1094"}) << parameters;
    }
}

TEST(Places, OfOtherUrlsAreAllCaches) {
    for (const char* url : {"roots://origin//a", "roots://origin//a?xrdcl.requuid=1&cks.type=adler32",
                            "root://origin//a?authz=Bearer%20abc", "xroot://origin//a?x"}) {
        EXPECT_EQ(caches("root://clear", url), Names{"root://clear:1094"}) << url;
    }
    EXPECT_EQ(caches("roots://tls", "xroots://origin//a?authz=x"), Names{"roots://tls:1094"});
}
