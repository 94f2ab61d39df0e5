#include "places.hh"

#include <algorithm>

#include "rendezvous.hh"

namespace forebay {
namespace {

constexpr size_t kCachesTried = 2;

}  // namespace

Places Places::of(const Options& options, const Url& file) {
    auto order = rendezvousOrder(options.cache_names, file.address() + "/" + file.path);
    order.erase(std::remove_if(order.begin(), order.end(),
                               [&](size_t cache) { return !file.mayBeSentTo(options.caches[cache]); }),
                order.end());
    order.resize(std::min(order.size(), kCachesTried));
    Places places;
    for (auto cache = order.rbegin(); cache != order.rend(); ++cache) {
        places.left_.push_front({Place::Kind::Cache, *cache, true, "", "", 0, {}});
    }
    return places;
}

Places Places::servedBy(size_t cache) {
    Places places;
    places.tryServed(cache);
    return places;
}

Places Places::leftBy(size_t cache) {
    Places places;
    places.left_.push_front({Place::Kind::Cache, cache, true, "", "", 0, {}});
    return places;
}

bool Places::next(Place& place) {
    if (left_.empty()) {
        return false;
    }
    place = left_.front();
    left_.pop_front();
    return true;
}

void Places::dropCaches() {
    left_.erase(std::remove_if(left_.begin(), left_.end(), [](const Place& place) { return place.isCache(); }),
                left_.end());
}

void Places::tryServed(size_t cache) {
    left_.push_front({Place::Kind::Cache, cache, false, "", "", 0, {}});
}

}  // namespace forebay
