// A lock that a child process finds open.
#pragma once

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>
#include <thread>

namespace forebay {

/// A mutex which is unlocked in a forked child: the thread that held it in the parent does not exist there.
class ForkSafeMutex {
  public:
    ForkSafeMutex() : owner_(getpid()) { new (&place_) std::mutex; }

    void lock() {
        const pid_t here = getpid();
        pid_t owner = owner_.load(std::memory_order_acquire);
        while (owner != here) {
            if (owner != kBeingMade && owner_.compare_exchange_weak(owner, kBeingMade)) {
                new (&place_) std::mutex;
                owner_.store(here, std::memory_order_release);
                break;
            }
            std::this_thread::yield();
            owner = owner_.load(std::memory_order_acquire);
        }
        mutex().lock();
    }

    void unlock() { mutex().unlock(); }

  private:
    static constexpr pid_t kBeingMade = -1;

    std::mutex& mutex() { return *std::launder(reinterpret_cast<std::mutex*>(&place_)); }

    std::atomic<pid_t> owner_;
    alignas(std::mutex) unsigned char place_[sizeof(std::mutex)];
};

}  // namespace forebay
