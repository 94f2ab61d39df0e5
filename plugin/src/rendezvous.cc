#include "rendezvous.hh"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace forebay {
namespace {

uint64_t fnv1a(uint64_t hash, std::string_view text) {
    for (const unsigned char c : text) {
        hash = (hash ^ c) * 0x100000001b3;
    }
    return hash;
}

/// Spreads the differences of similar texts over all bits (the last step of MurmurHash3).
uint64_t mixed(uint64_t hash) {
    hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccd;
    hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53;
    return hash ^ (hash >> 33);
}

uint64_t score(std::string_view cache, std::string_view file) {
    return mixed(fnv1a(fnv1a(fnv1a(0xcbf29ce484222325, cache), "\n"), file));
}

}  // namespace

std::vector<size_t> rendezvousOrder(const std::vector<std::string>& caches, std::string_view file) {
    std::vector<uint64_t> scores;
    scores.reserve(caches.size());
    for (const std::string& cache : caches) {
        scores.push_back(score(cache, file));
    }
    std::vector<size_t> order(caches.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
    return order;
}

}  // namespace forebay
