// A thread pool for loops of microseconds, on machines whose cores are also wanted by others.
//
// Chunks are claimed one by one, and the caller waits only for chunks that somebody has begun: a worker that the
// operating system has not scheduled yet costs nothing, where a barrier over all threads would wait milliseconds for
// it. Workers spin for some microseconds after their last chunk, then sleep.

#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace pool {

constexpr int SPINS = 5000;  // a few tens of microseconds: the gap between two calls of a forward

inline void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

class Pool {
  public:
    // Run body(chunk) for every chunk in 0 .. chunks - 1, on this thread and up to `threads` - 1 others.
    template <class Body> void run(int threads, int64_t chunks, const Body& body) {
        std::unique_lock<std::mutex> alone(busy_, std::try_to_lock);
        if (threads < 2 || chunks < 2 || !alone) {
            for (int64_t i = 0; i < chunks; i++) body(i);
            return;
        }
        while (workers_ < threads - 1) {
            workers_++;
            std::thread([this] { work(); }).detach();
        }
        // The ticket of the last job goes before its description does: a late claim that has read half of each would
        // otherwise succeed.
        const uint32_t epoch = uint32_t(ticket_.load(std::memory_order_relaxed) >> 32) + 1;
        ticket_.store(uint64_t(epoch) << 32 | NONE_LEFT, std::memory_order_relaxed);
        call_.store([](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, std::memory_order_release);
        body_.store(&body, std::memory_order_release);
        chunks_.store(chunks, std::memory_order_release);
        done_.store(0, std::memory_order_relaxed);
        ticket_.store(uint64_t(epoch) << 32, std::memory_order_release);
        epoch_.store(epoch, std::memory_order_release);
        epoch_.notify_all();
        help(epoch);
        while (done_.load(std::memory_order_acquire) < chunks) relax();
    }

  private:
    typedef void (*Call)(const void*, int64_t);
    static constexpr uint64_t NONE_LEFT = 0xffffffffu;  // no job has as many chunks

    // Claim and run chunks of job `epoch` until none is left. A claim names the job it belongs to, so that one made
    // late, after the job has ended, fails; and a job cannot end while a claimed chunk runs.
    void help(uint32_t epoch) {
        for (;;) {
            uint64_t ticket = ticket_.load(std::memory_order_acquire);
            const Call call = call_.load(std::memory_order_acquire);
            const void* body = body_.load(std::memory_order_acquire);
            const int64_t chunks = chunks_.load(std::memory_order_acquire), chunk = uint32_t(ticket);
            if (uint32_t(ticket >> 32) != epoch || chunk >= chunks) return;
            if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
            call(body, chunk);
            done_.fetch_add(1, std::memory_order_release);
        }
    }

    void work() {
        uint32_t seen = 0;
        for (;;) {
            for (int i = 0; i < SPINS && epoch_.load(std::memory_order_acquire) == seen; i++) relax();
            epoch_.wait(seen, std::memory_order_acquire);
            seen = epoch_.load(std::memory_order_acquire);
            help(seen);
        }
    }

    std::mutex busy_;
    int workers_ = 0;
    std::atomic<Call> call_{nullptr};
    std::atomic<const void*> body_{nullptr};
    std::atomic<int64_t> chunks_{0};
    alignas(64) std::atomic<uint64_t> ticket_{0};  // job << 32 | next chunk
    alignas(64) std::atomic<int64_t> done_{0};
    alignas(64) std::atomic<uint32_t> epoch_{0};
};

// Never destroyed: its threads outlive every static object.
inline Pool& shared() {
    static Pool* instance = new Pool;
    return *instance;
}

}  // namespace pool
