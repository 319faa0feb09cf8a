// Rows in contiguous chunks over threads. No pool and no global state: threads live for one call,
// or, in a run of many steps, for as long as a Team of the caller does, so that a process may fork
// between two calls.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

#include "runtime/interrupts.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#    include <immintrin.h>
#endif

namespace wolfmeans {

// Below this many coordinate operations starting a thread costs more than it saves.
inline constexpr double operations_per_thread = 1e6;
// A team is there already: handing it work costs far less.
inline constexpr double operations_per_member = 5e4;

// Threads that wait for work. They spin for a moment before they sleep, because the steps of a run
// follow each other closely.
class Team {
public:
    // Starts n_threads - 1 threads, or fewer when no more can be had, and becomes the team of the
    // calling thread until destroyed.
    explicit Team(int n_threads) : outer_(current()) {
        try {
            for (int member = 1; member < n_threads; ++member)
                threads_.emplace_back([this] { serve(); });
        } catch (const std::exception&) {
            // The calling thread does what is left.
        }
        current() = this;
    }
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;
    ~Team() {
        current() = outer_;
        over_ = true;
        // No part to take, but another ticket to wake up by.
        ticket_.fetch_add(one_round);
        ticket_.notify_all();
        for (std::thread& thread : threads_)
            thread.join();
    }

    // The team of this thread, null where there is none.
    static Team*& current() {
        thread_local Team* team = nullptr;
        return team;
    }

    // Run part(0), ..., part(parts - 1), each once, as threads come for them. Nobody waits for a
    // thread that has taken no part: where others use the processor, the calling thread does all.
    void run(std::size_t parts, const std::function<void(std::size_t)>& part) {
        part_ = &part;
        done_ = 0;
        const std::uint64_t round = ticket_.load() / one_round + 1;
        ticket_.store(round * one_round + parts);
        ticket_.notify_all();
        work();
        for (int spin = 0;; ++spin) {
            const std::size_t done = done_;
            if (done == parts) break;
            if (spin < spins)
                relax();
            else
                done_.wait(done);
        }
    }

private:
    // Some tens of microseconds: longer than the calling thread is busy between two regions.
    static constexpr int spins = 3000;
    // A ticket is the number of the round, and in its lower half how many parts are left to take.
    static constexpr std::uint64_t one_round = std::uint64_t{1} << 32;

    static void relax() {
#if defined(__x86_64__) || defined(_M_X64)
        _mm_pause();
#endif
    }

    // Take parts until none is left. Whoever takes one holds the round open, so that part_ is its.
    void work() {
        for (std::uint64_t ticket = ticket_; ticket % one_round != 0;) {
            if (!ticket_.compare_exchange_weak(ticket, ticket - 1)) continue;
            (*part_)(static_cast<std::size_t>(ticket % one_round - 1));
            done_.fetch_add(1);
            done_.notify_one();
            ticket = ticket_;
        }
    }

    void serve() {
        while (!over_) {
            const std::uint64_t seen = ticket_;
            if (seen % one_round != 0) {
                work();
                continue;
            }
            int spin = 0;
            while (ticket_ == seen && spin < spins) {
                relax();
                ++spin;
            }
            if (spin == spins && !over_) ticket_.wait(seen);
        }
    }

    Team* outer_;
    std::vector<std::thread> threads_;
    const std::function<void(std::size_t)>* part_ = nullptr;
    std::atomic<std::uint64_t> ticket_{0};
    std::atomic<std::size_t> done_{0};
    std::atomic<bool> over_{false};
};

// How many threads `operations` of work over `n` rows are worth, at most n_threads, at least 1.
inline std::size_t worthwhile_threads(std::size_t n, double operations, int n_threads) {
    const double cost = Team::current() ? operations_per_member : operations_per_thread;
    const double worth = std::min(operations / cost, double(n_threads));
    return std::max<std::size_t>(1, std::min(n, static_cast<std::size_t>(worth)));
}

// Run work(chunk, begin, end) for `chunks` contiguous chunks that together are the rows 0..n-1,
// each once. Chunk boundaries are multiples of `multiple` (save the last). Returns when all are
// done. What `work` computes for a row must not depend on the chunk. Ctrl-C is heard before it
// begins, and by a `work` that takes long when it says heed().
template <class Work>
void over_rows(std::size_t n, std::size_t chunks, std::size_t multiple, const Work& work) {
    heed();
    const std::size_t units = (n + multiple - 1) / multiple;
    const auto boundary = [&](std::size_t chunk) {
        const std::size_t extra = std::min(chunk, units % chunks);
        return std::min(n, (units / chunks * chunk + extra) * multiple);
    };
    if (chunks == 1) return work(0, boundary(0), boundary(1));
    Helpers helpers;
    const auto run = [&](std::size_t chunk) {
        helpers.run([&] { work(chunk, boundary(chunk), boundary(chunk + 1)); });
    };
    if (Team* team = Team::current()) {
        team->run(chunks, run);
        return helpers.rethrow();
    }

    std::vector<std::thread> threads;
    threads.reserve(chunks - 1);
    std::size_t started = 1;
    try {
        for (; started < chunks; ++started)
            threads.emplace_back(run, started);
    } catch (const std::exception&) {
        // No more threads to be had: the calling thread does the chunks that are left.
    }
    run(0);
    for (std::size_t chunk = started; chunk < chunks; ++chunk)
        run(chunk);
    for (std::thread& thread : threads)
        thread.join();
    helpers.rethrow();
}

} // namespace wolfmeans
